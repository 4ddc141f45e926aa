"""One question, one answer in tags."""

import verifiers as vf
from datasets import Dataset

SYSTEM = "Answer inside <answer> tags."


class Thesaurus:
    """A shared object that reward functions ask for by name."""

    def same(self, left: str, right: str) -> bool:
        return left.strip().lower() == right.strip().lower()


def rows(n: int) -> Dataset:
    return Dataset.from_list([{"question": f"Repeat: {word}", "answer": word} for word in ["red", "blue"] * n])


def load_environment(num_examples: int = 4, weight: float = 0.5, with_examples: bool = True) -> vf.Environment:
    parser = vf.XMLParser(fields=["reasoning", ("code", "answer")], answer_field="answer")

    async def exact(completion, answer, parser, thesaurus) -> float:
        return float(thesaurus.same(parser.parse_answer(completion) or "", answer))

    def tagged(completion, parser) -> float:
        return float("<answer>" in str(completion[-1]["content"]))

    def answer_length(completion, info, prompt, state, **kwargs) -> float:
        assert state["prompt"] == prompt
        return float(len(str(completion[-1]["content"])))

    rubric = vf.Rubric(funcs=[exact], parser=parser)
    rubric.add_reward_func(tagged, weight=weight)
    rubric.add_metric(answer_length)
    rubric.add_class_object("thesaurus", Thesaurus())
    shots = [
        {"role": "user", "content": "Repeat: green"},
        {"role": "assistant", "content": parser.format(reasoning="as asked", code="green")},
    ]
    return vf.SingleTurnEnv(
        dataset=rows(num_examples),
        eval_dataset=lambda: rows(num_examples),
        system_prompt=SYSTEM + parser.get_format_str(),
        few_shot=shots if with_examples else None,
        parser=parser,
        rubric=rubric,
        sampling_args={"temperature": 0.3, "extra_body": {"top_k": 7}},
    )
