"""The loop, its tool and the harnesses that look at the result share the sandbox of the program."""

import asyncio

import verifiers as vf


async def shell(command: str, sandbox, state) -> str:
    """Run a command."""
    result = await sandbox.execute(command, timeout=60)
    return result.stdout or ""


async def ask(state, question: str, transcript: str = "") -> str:
    """The last words of a harness of its own, which has the model and the sandbox of `state`."""
    task = vf.Task({"prompt": [{"role": "user", "content": question}], "max_turns": 2}).freeze()
    more = {"transcript": transcript} if transcript else {}
    inner = state.for_task(task, borrow=["model", "sandbox"], tools="shell", **more)
    inner = await vf.Harness(config=vf.HarnessConfig(max_turns=2)).run(task, inner)
    return str(vf.get_messages(inner["completion"], role="assistant")[-1].content)


@vf.update
async def looked_at(task, state) -> None:
    state["seen"] = await asyncio.gather(*(ask(state, f"Read it, you are number {n}.", "append") for n in range(2)))


@vf.reward
async def judged(task, state) -> float:
    return float(task["answer"] in await ask(state, "Read it as a judge."))


@vf.metric
async def seen(task, state) -> float:
    return float(sum(task["answer"] in words for words in state["seen"]))


class FilesConfig(vf.TasksetConfig):
    toolsets: dict[str, vf.ToolsetConfig] = {"shell": vf.ToolsetConfig(tools=["shell"], write=True, sandbox="program")}
    updates: list[str] = ["looked_at"]
    rewards: list[str] = ["judged"]
    metrics: list[str] = ["seen"]


class LoopConfig(vf.HarnessConfig):
    program: vf.ProgramConfig | None = vf.ProgramConfig(sandbox=True, channels="callable")
    sandbox: vf.SandboxConfig = vf.SandboxConfig(
        image="python:3.11-slim", scope="rollout", network_access=True, command_timeout=60
    )
    max_turns: int = 3


class Files(vf.Taskset[FilesConfig]):
    def load_tasks(self) -> vf.Tasks:
        return [{"prompt": [{"role": "user", "content": "Write 42 into /tmp/answer."}], "answer": "42"}]


class FilesEnvConfig(vf.EnvConfig):
    taskset: FilesConfig = FilesConfig()
    harness: LoopConfig = LoopConfig()


def load_environment(config: FilesEnvConfig) -> vf.Env:
    return vf.Env(taskset=Files(config=config.taskset), harness=vf.Harness(config=config.harness))
