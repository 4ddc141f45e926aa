"""A parent program that lets a child harness answer with the parent's model."""

import verifiers as vf


async def delegate(task: vf.Task, state: vf.State) -> vf.State:
    child = vf.Task({"prompt": [{"role": "user", "content": "Summarise: " + str(task["answer"])}]}).freeze()
    inner = state.for_task(child, borrow="model")
    inner = await vf.Harness(config=vf.HarnessConfig(max_turns=1)).run(child, inner)
    state["summary"] = inner["completion"]
    state["completion"] = [{"role": "assistant", "content": str(inner["completion"][-1]["content"])}]
    return state


class StoriesConfig(vf.TasksetConfig):
    count: int = 2


class Stories(vf.Taskset[StoriesConfig]):
    def load_tasks(self) -> vf.Tasks:
        return [{"prompt": [{"role": "user", "content": f"Story {i}"}], "answer": f"story {i}"} for i in range(2)]

    @vf.reward
    async def summarised(self, task, state) -> float:
        return float(bool(state.get("summary")))


class DelegateConfig(vf.HarnessConfig):
    program: str | None = "e2e_nested:delegate"


def load_taskset(config: StoriesConfig) -> Stories:
    return Stories(config=config)


def load_environment(config: vf.EnvConfig) -> vf.Env:
    return vf.Env(taskset=vf.load_taskset(config=config.taskset), harness=vf.Harness(config=DelegateConfig()))
