"""Continue a text."""

import warnings

import verifiers as vf
from datasets import Dataset


def load_environment(n: int = 3) -> vf.Environment:
    dataset = Dataset.from_list([{"prompt": f"Once upon a time {i}", "answer": ""} for i in range(n)])

    async def wrote(completion) -> float:
        return float(len(str(completion)) > 0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return vf.SingleTurnEnv(dataset=dataset, message_type="completion", rubric=vf.Rubric(funcs=[wrote]))
