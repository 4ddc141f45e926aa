"""Reverse a short string: the Taskset/Harness form of verifiers 0.1.15.dev11."""

import random

import verifiers as vf

LETTERS = "abcdefgh"


class ReverseTasksetConfig(vf.TasksetConfig):
    """How many strings, how long, and from which seed."""

    num_train: int = 500
    num_eval: int = 100
    length: int = 4
    seed: int = 0


class ReverseTaskset(vf.Taskset[ReverseTasksetConfig]):
    """Rows "reverse: abcd" -> "dcba"."""

    def rows(self, n: int, seed: int):
        rng = random.Random(seed)
        for index in range(n):
            word = "".join(rng.choice(LETTERS) for _ in range(self.config.length))
            yield {
                "example_id": index,
                "prompt": [{"role": "user", "content": f"reverse: {word}"}],
                "answer": word[::-1],
                "max_turns": 1,
            }

    def load_tasks(self) -> vf.Tasks:
        return list(self.rows(self.config.num_train, self.config.seed))

    def load_eval_tasks(self) -> vf.Tasks:
        return list(self.rows(self.config.num_eval, self.config.seed + 1_000_003))

    @vf.reward(weight=1.0)
    async def exact_match(self, task, state) -> float:
        return float(last_reply(state) == task["answer"])

    @vf.metric
    async def reply_length(self, task, state) -> float:
        return float(len(last_reply(state)))


def last_reply(state) -> str:
    """The assistant's last message, stripped."""
    messages = vf.get_messages(state.get("completion") or [], role="assistant")
    return str(messages[-1].content or "").strip() if messages else ""


def load_taskset(config: ReverseTasksetConfig) -> ReverseTaskset:
    return ReverseTaskset(config=config)


def load_environment(config: vf.EnvConfig) -> vf.Env:
    """Reward: exact match. Knobs: [eval.taskset] num_eval, length, seed; [eval.harness] max_turns ..."""
    return vf.Env(
        taskset=vf.load_taskset(config=config.taskset),
        harness=vf.Harness(config=config.harness),
    )
