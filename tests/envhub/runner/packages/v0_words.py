"""A v0 environment with everything that can go wrong, chosen by the prompt's text or by an argument."""

import asyncio
import os
import sys
import time

import verifiers as vf
from datasets import Dataset

teardown = getattr(vf, "teardown", lambda method: method)  # since 0.1.8, as are responses without the state


def fork(state, status=None) -> float:
    child = os.fork()
    if not child and status is not None:
        sys.exit(status)
    state["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else "has returned"
    return 1.0


def load_environment(n: int = 5, mode: str = "plain", **kwargs):
    rows = [{"question": f"say {i}", "answer": str(i), "info": {"mode": mode}} for i in range(n)]
    dataset = Dataset.from_list(rows)

    async def length(completion) -> float:
        if mode == "hanging-reward":
            await asyncio.sleep(3600)
        return float(len(completion))

    def exact(completion, answer, state) -> float:
        if mode == "bad-reward":
            raise ValueError("the reward broke")
        if mode == "no-number":
            return None
        if mode == "blocking-reward":
            time.sleep(3600)
        if mode == "spinning-reward":
            while True:
                pass
        if mode == "exit-in-reward":
            raise SystemExit(3)
        if mode == "fork-in-reward":
            return fork(state)
        if mode == "fork-in-thread":
            return asyncio.to_thread(fork, state)
        if mode.startswith("exit-of-fork"):
            how, _, status = mode.rpartition(" ")
            return asyncio.to_thread(fork, state, int(status)) if "thread" in how else fork(state, int(status))
        return 1.0 if completion else 0.0

    async def best(completions, states) -> list[float]:
        if mode == "bad-group":
            raise RuntimeError("the group reward broke")
        return [1.0 / (1 + index) for index in range(len(states))]

    functions = [exact, length] if mode not in ("group", "bad-group", "group-one-breaks") else [exact, best]
    rubric = vf.Rubric(funcs=functions, weights=[1.0, 0.5])
    if mode == "namesakes":
        numbers = [lambda completion: 1.0, lambda completion: 0.25]
        parts = [vf.Rubric(funcs=[exact, *numbers], weights=[1.0, 0.5, 2.0]), vf.Rubric(funcs=[exact, length, length])]
        rubric = vf.RubricGroup(rubrics=parts)
    if mode == "members":
        rubrics = [vf.Rubric(funcs=[exact], weights=[weight]) for weight in (0.5, 2.0)]
        return vf.EnvGroup(envs=[vf.SingleTurnEnv(dataset=dataset, rubric=rubric) for rubric in rubrics])
    if mode in ("env-error", "group-one-breaks", "blocking-env", "env-exit", "hang", "fork-in-env"):
        return Breaking(dataset=dataset, rubric=rubric, mode=mode)
    return vf.SingleTurnEnv(dataset=dataset, rubric=rubric, system_prompt="Be brief.")


class Breaking(vf.MultiTurnEnv):
    seen = 0

    def __init__(self, mode, **kwargs):
        super().__init__(max_turns=3, **kwargs)
        self.mode = mode

    async def env_response(self, messages, state, **kwargs):
        if self.mode == "fork-in-env":
            fork(state, 7)
            return [] if hasattr(vf, "teardown") else ([], state)
        type(self).seen += 1
        if self.mode == "env-error" or (self.mode == "group-one-breaks" and self.seen == 1):
            raise KeyError("no such key")
        if self.mode == "env-exit":
            raise SystemExit(4)
        if self.mode == "blocking-env":
            time.sleep(3600)  # noqa: ASYNC251 - on purpose
        if self.mode == "hang":
            await asyncio.sleep(3600)
        messages = [{"role": "user", "content": "go on"}]
        return messages if hasattr(vf, "teardown") else (messages, state)

    @teardown
    async def goodbye(self):
        print("teardown ran", os.getpid())
