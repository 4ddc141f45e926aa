"""The coding agents of verifiers 0.1.14, each with one task in a sandbox that they install themselves in."""

import verifiers as vf
from datasets import Dataset
from verifiers.envs.experimental.opencode_env import OpenCodeEnv


class OpenCode(OpenCodeEnv):
    async def post_rollout(self, state):
        await super().post_rollout(state)
        result = await self.sandbox_client.execute_command(state["sandbox_id"], "cat /tmp/answer || true")
        state["left"] = result.stdout.strip()


def left(state, answer) -> float:
    return float(state.get("left") == answer)


@vf.reward(weight=1.0)
async def written(task, state) -> float:
    return float(str(state["artifacts"]["answer"]).strip() == task["answer"])


def rows():
    return [{"question": "Write 42 into /tmp/answer.", "answer": "42"}]


def load_environment(agent: str = "OpenCodeEnv") -> vf.Environment:
    """`agent` is a class of verifiers: OpenCodeEnv, or a harness (OpenCode, Pi, RLM, ...)."""
    if agent == "OpenCodeEnv":
        return OpenCode(dataset=Dataset.from_list(rows()), rubric=vf.Rubric(funcs=[left]), poll_interval=0.5)
    program = {"artifacts": {"answer": {"path": "/tmp/answer", "format": "text", "optional": True}}}
    harness = getattr(vf, agent)(program=program)
    return vf.Env(taskset=vf.Taskset(source=rows, rewards=[written]), harness=harness)
