"""Procedural tasks of the reasoning-gym package, scored by its own verifiers."""

import reasoning_gym
import verifiers as vf
from datasets import Dataset


def load_environment(
    task: str = "chain_sum", num_train: int = 500, num_eval: int = 100, seed: int = 0, **task_args
) -> vf.Environment:
    """Reward: what reasoning-gym's scorer of `task` gives, 0 to 1. `task_args` go to `reasoning_gym.create_dataset`."""
    if task == "chain_sum" and not task_args:
        task_args = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    entries = reasoning_gym.create_dataset(task, size=num_train + num_eval, seed=seed, **task_args)
    rows = [
        {"question": entry["question"], "answer": str(entry["answer"]), "info": {"index": index}}
        for index, entry in enumerate(entries)
    ]

    def scored_by_reasoning_gym(completion, info) -> float:
        text = str(completion[-1]["content"] or "").strip() if completion else ""
        return float(entries.score_answer(answer=text, entry=entries[info["index"]]))

    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows[:num_train]),
        eval_dataset=Dataset.from_list(rows[num_train:]),
        rubric=vf.Rubric(funcs=[scored_by_reasoning_gym]),
    )
