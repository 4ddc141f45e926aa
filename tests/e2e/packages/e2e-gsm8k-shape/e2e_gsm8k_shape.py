"""Word problems with a worked answer, read from a data hub."""

import re

import verifiers as vf
from datasets import load_dataset

SYSTEM = "Work it out, then give the number inside <answer> tags."


def load_environment(
    num_examples: int = -1, builtin: bool = False, data_set: str = "openai/gsm8k"
) -> vf.Environment:
    if builtin:
        train, test = (vf.load_example_dataset("gsm8k", split=split) for split in ("train", "test"))
    else:
        train, test = (load_dataset(data_set, "main", split=split) for split in ("train", "test"))
    if num_examples > 0:
        train = train.select(range(num_examples))
    parser = vf.XMLParser(["answer"])

    async def right_number(completion, answer, parser) -> float:
        given = parser.parse_answer(completion) or ""
        return float(re.sub(r"[^\d.\-]", "", given) == vf.extract_hash_answer(answer).replace(",", ""))

    rubric = vf.Rubric(funcs=[right_number, parser.get_format_reward_func()], weights=[1.0, 0.2], parser=parser)
    return vf.SingleTurnEnv(dataset=train, eval_dataset=test, rubric=rubric, system_prompt=SYSTEM)
