"""Reasoning before the answer, mathematics after it."""

import verifiers as vf
from datasets import Dataset

PARSERS = {"think": vf.ThinkParser, "maybe": vf.MaybeThinkParser, "plain": vf.Parser}


def load_environment(n: int = 3, parser: str = "maybe") -> vf.Environment:
    dataset = Dataset.from_list([{"question": f"What is {i}+{i}?", "answer": str(2 * i)} for i in range(n)])
    chosen = PARSERS[parser](extract_fn=vf.extract_boxed_answer)
    maths = vf.MathRubric(parser=chosen)

    async def parsed(completion, parser) -> float:
        return float(parser.parse_answer(completion) is not None)

    form = vf.Rubric(funcs=[parsed, chosen.get_format_reward_func()], weights=[0.0, 0.1], parser=chosen)
    return vf.SingleTurnEnv(dataset=dataset, parser=chosen, rubric=vf.RubricGroup(rubrics=[maths, form]))
