"""A mixture: plain rows, rows whose rollouts are compared with each other, and a mixture inside."""

import verifiers as vf
from datasets import Dataset


def rows(word: str, n: int) -> Dataset:
    return Dataset.from_list([{"question": f"{word} {i}", "answer": word} for i in range(n)])


async def said(completion) -> float:
    return float(bool(completion))


async def shortest(completions, states) -> list[float]:
    lengths = [len(str(completion)) for completion in completions]
    return [float(length == min(lengths)) for length in lengths]


def load_environment(n: int = 2, nested: bool = False) -> vf.Environment:
    plain = vf.SingleTurnEnv(dataset=rows("plain", n), rubric=vf.Rubric(funcs=[said]))
    compared = vf.SingleTurnEnv(
        dataset=rows("compared", n), rubric=vf.Rubric(funcs=[said, shortest], weights=[0.5, 1.0])
    )
    group = vf.EnvGroup(envs=[plain, compared], names=["plain", "compared"])
    if not nested:
        return group
    third = vf.SingleTurnEnv(dataset=rows("third", n), rubric=vf.Rubric(funcs=[said]))
    other = vf.EnvGroup(envs=[third], names=["third"])  # the library mixes only groups of the same depth
    return vf.EnvGroup(envs=[group, other], names=["inner", "other"])
