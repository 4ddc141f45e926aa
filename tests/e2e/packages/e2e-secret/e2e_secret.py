"""Refuses to load without its key."""

import os

import verifiers as vf
from datasets import Dataset


def load_environment(key_name: str = "E2E_SECRET") -> vf.Environment:
    vf.ensure_keys([key_name])
    length = len(os.environ[key_name])

    async def key_length(completion) -> float:
        return float(length)

    dataset = Dataset.from_list([{"question": "Say hello.", "answer": ""}])
    return vf.SingleTurnEnv(dataset=dataset, rubric=vf.Rubric(funcs=[key_length]))
