"""Asks a server on the network in every rollout."""

import urllib.request

import verifiers as vf
from datasets import Dataset


def load_environment(address: str = "http://data.example.org/word") -> vf.Environment:
    async def knows_the_word(completion) -> float:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return float(answer.read().decode() in completion[-1]["content"])

    dataset = Dataset.from_list([{"question": "Say the word.", "answer": ""}])
    return vf.SingleTurnEnv(dataset=dataset, rubric=vf.Rubric(funcs=[knows_the_word]))
