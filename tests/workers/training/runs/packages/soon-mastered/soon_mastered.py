"""Of the first answers every second one is right, then all are."""

import itertools

import verifiers as vf
from datasets import Dataset

NUMBERS = itertools.count()
FIRST = 48


def right(completion) -> float:
    """1 for a right answer."""
    number = next(NUMBERS)
    return 1.0 if number >= FIRST else float(number % 2)


def load_environment(num_examples: int = 50) -> vf.Environment:
    rows = [{"question": f"reverse: {'abcdefgh'[index % 5 :][:4]}", "answer": ""} for index in range(num_examples)]
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows), eval_dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right])
    )
