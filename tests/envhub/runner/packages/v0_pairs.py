"""As environments were written for verifiers before 0.1.8: is_completed takes messages, env_response returns a pair."""

import verifiers as vf
from datasets import Dataset


class Guess(vf.MultiTurnEnv):
    async def is_completed(self, messages, state, **kwargs):
        return state["turn"] >= 2 or "stop" in messages[-1]["content"]

    async def env_response(self, messages, state, **kwargs):
        state["asked"] = state.get("asked", 0) + 1
        return [{"role": "user", "content": "again"}], state


class Compared(vf.Rubric):
    async def score_rollouts(self, prompts, completions, answers, states, tasks, infos, **kwargs):
        scores = await super().score_rollouts(prompts, completions, answers, states, tasks, infos, **kwargs)
        scores.reward = [reward / len(prompts) for reward in scores.reward]
        return scores


def double(x: int) -> int:
    """Twice a number.

    Args:
        x: the number
    """
    return 2 * x


def load_environment(mode: str = "guess", **kwargs):
    rows = [{"question": f"say {i}", "answer": str(i), "info": {"n": i}} for i in range(3)]
    dataset = Dataset.from_list(rows)

    def exact(completion, answer, info, **kwargs):
        return float(answer in completion[-1]["content"] and info["n"] == int(answer))

    def turns(state, **kwargs):
        return float(state["turn"])

    rubric = (Compared if mode == "compared" else vf.Rubric)(funcs=[exact, turns], weights=[1.0, 0.0])
    if mode == "tools":
        return vf.ToolEnv(tools=[double], dataset=dataset, rubric=rubric, max_turns=4)
    if mode == "members":
        names = ["first", "second"]
        members = [vf.SingleTurnEnv(dataset=dataset, rubric=vf.Rubric(funcs=[exact])) for _ in names]
        return vf.EnvGroup(envs=members, env_names=names)
    if mode == "completion":
        prompts = Dataset.from_list([{"prompt": "one two", "answer": "three"}])
        words = vf.Rubric(funcs=[lambda completion, answer, **kwargs: float(answer in completion)])
        return vf.SingleTurnEnv(dataset=prompts, rubric=words, message_type="completion")
    return Guess(dataset=dataset, rubric=rubric, system_prompt="Be brief.", max_turns=5)
