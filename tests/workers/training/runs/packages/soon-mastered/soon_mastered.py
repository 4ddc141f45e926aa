"""Of the first answers every second one is right, then all are."""

import itertools

import verifiers as vf
from datasets import Dataset


def load_environment(num_examples: int = 50, first: int = 48) -> vf.Environment:
    numbers = itertools.count()

    def right(completion) -> float:
        """1 for a right answer."""
        number = next(numbers)
        return 1.0 if number >= first else float(number % 2)

    rows = [{"question": f"reverse: {'abcdefgh'[index % 5 :][:4]}", "answer": ""} for index in range(num_examples)]
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows), eval_dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right])
    )
