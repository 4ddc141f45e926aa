"""A rollout has a computer of its own: a shell (`kind="bash"`), or a Python session (`kind="python"`)."""

import asyncio

import verifiers as vf
from datasets import Dataset


class Shell(vf.SandboxEnv):
    """Reads what the model has left behind before the sandbox is gone."""

    more = 0  # further sandboxes that a rollout asks for when it has its first

    async def setup_state(self, state, **kwargs):
        made = await super().setup_state(state, **kwargs)
        for _ in range(self.more):
            await self.sandbox_client.wait_for_creation(state["sandbox_id"])
            await asyncio.sleep(1)
            another = await self.sandbox_client.create(self.get_sandbox_request(state))
            await self.sandbox_client.wait_for_creation(another.id)
        return made

    async def post_rollout(self, state):
        result = await self.sandbox_client.execute_command(state["sandbox_id"], "cat /tmp/answer || true")
        state["left"] = result.stdout.strip()


def said(completion, answer) -> float:
    """Its last words have the answer."""
    return float(answer in str(completion[-1]["content"]))


def left(state, answer) -> float:
    """So has the file."""
    return float(state.get("left") == answer)


def tool_said(completion, answer) -> float:
    """A tool has said it."""
    return float(any(answer in str(message["content"]) for message in completion if message["role"] == "tool"))


def load_environment(
    kind: str = "bash", image: str = "python:3.11-slim", packages: str = "", more: int = 0
) -> vf.Environment:
    """`packages` are installed when a Python session begins. `more`: of Shell."""
    rows = Dataset.from_list([{"question": "What is 6 times 7? Compute it.", "answer": "42"}] * 2)
    if kind == "python":
        rubric = vf.Rubric(funcs=[said, tool_said])
        return vf.PythonEnv(dataset=rows, rubric=rubric, pip_install_packages=packages, max_turns=4)
    Shell.more = more
    return Shell(dataset=rows, rubric=vf.Rubric(funcs=[said, left]), docker_image=image, max_turns=4)
