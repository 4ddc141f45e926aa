"""Every second rollout fails, by the environment's own code."""

import itertools

import verifiers as vf
from datasets import Dataset

NUMBERS = itertools.count()


class HalfBrokenEnv(vf.SingleTurnEnv):
    """Raises before the model is asked."""

    async def setup_state(self, state, **kwargs):
        if next(NUMBERS) % 2:
            raise RuntimeError("half of the rollouts break")
        return await super().setup_state(state, **kwargs)


def first_half(completion) -> float:
    """The share of letters from the first half of the alphabet that is used."""
    text = str(completion[-1]["content"] or "")
    return sum(letter in "abcd" for letter in text) / max(len(text), 1)


def load_environment(num_examples: int = 50) -> vf.Environment:
    rows = [{"question": f"reverse: {'abcdefgh'[index % 5 :][:4]}", "answer": ""} for index in range(num_examples)]
    return HalfBrokenEnv(
        dataset=Dataset.from_list(rows), eval_dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[first_half])
    )
