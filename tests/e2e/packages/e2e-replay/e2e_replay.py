"""Gold answers checked without a model."""

import verifiers as vf


async def replay(task, state):
    state["answer"] = task["answer"]
    state.stop("replayed")
    return state


class ReplayConfig(vf.TasksetConfig):
    answers: int = 3


class Replay(vf.Taskset[ReplayConfig]):
    def load_tasks(self) -> vf.Tasks:
        return [{"prompt": [{"role": "user", "content": f"{i}?"}], "answer": str(i)} for i in range(self.config.answers)]

    @vf.reward
    async def matches(self, task, state) -> float:
        return float(state.get("answer") == task.get("answer"))


class ReplayHarnessConfig(vf.HarnessConfig):
    program: str | None = "e2e_replay:replay"


def load_taskset(config: ReplayConfig) -> Replay:
    return Replay(config=config)


def load_environment(config: vf.EnvConfig) -> vf.Env:
    return vf.Env(taskset=vf.load_taskset(config=config.taskset), harness=vf.Harness(config=ReplayHarnessConfig()))
