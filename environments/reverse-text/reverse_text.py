"""Reverse a short string of letters: the smallest environment, and the one that the training example learns."""

import random

import verifiers as vf
from datasets import Dataset

LETTERS = "abcdefgh"


def make_rows(n: int, length: int, seed: int) -> list[dict]:
    """`n` rows, made from `seed`: question "reverse: abcd", answer "dcba"."""
    rng = random.Random(seed)
    words = ("".join(rng.choice(LETTERS) for _ in range(length)) for _ in range(n))
    return [{"question": f"reverse: {word}", "answer": word[::-1]} for word in words]


def last_text(completion) -> str:
    """The assistant's last message, stripped."""
    return str(completion[-1]["content"] or "").strip() if completion else ""


def exact_match(completion, answer: str) -> float:
    """1 when the whole answer is right."""
    return float(last_text(completion) == answer)


def letters_in_place(completion, answer: str) -> float:
    """The share of positions with the right letter; extra letters count as wrong."""
    text = last_text(completion)
    hits = sum(a == b for a, b in zip(text, answer))
    return hits / max(len(text), len(answer), 1)


def load_environment(num_train: int = 1000, num_eval: int = 200, length: int = 4, seed: int = 0) -> vf.Environment:
    """Reward 0.5 x exact match + 0.5 x letters in place."""
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(make_rows(num_train, length, seed)),
        eval_dataset=Dataset.from_list(make_rows(num_eval, length, seed + 1_000_003)),
        rubric=vf.Rubric(funcs=[exact_match, letters_in_place], weights=[0.5, 0.5]),
    )
