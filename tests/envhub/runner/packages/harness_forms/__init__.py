"""Forms of the harness guide: signals named in tables, `init_group`, and a package's own `skills` folder."""

import verifiers as vf


async def spoken(task, state) -> float:
    """A metric that only a [[taskset.metrics]] table brings."""
    return float(len(vf.get_messages(state.get("completion") or [], role="assistant")))


async def named(task, state) -> float:
    """A reward that only a [[taskset.rewards]] table brings."""
    return 1.0


class FormsConfig(vf.TasksetConfig):
    pass


class Forms(vf.Taskset[FormsConfig]):
    def load_tasks(self) -> vf.Tasks:
        return [{"prompt": [{"role": "user", "content": f"Say {i}."}], "answer": str(i)} for i in range(2)]

    async def init_group(self, task, num_rollouts):
        tasks, states = await super().init_group(task, num_rollouts)
        for place, state in enumerate(states):
            state["place"] = place
            state["of"] = num_rollouts
        return tasks, states

    @vf.reward(weight=1.0)
    async def exact(self, task, state) -> float:
        return 1.0

    @vf.metric
    async def place(self, task, state) -> float:
        return float(state["place"])

    @vf.metric
    async def group_size(self, task, state) -> float:
        return float(state["of"])

    @vf.metric
    async def skills(self, task, state) -> float:
        return float(sum(1 for _ in self.get_upload_dirs()["skills"].iterdir()))


def load_taskset(config: FormsConfig) -> Forms:
    return Forms(config=config)


def load_environment(config: vf.EnvConfig) -> vf.Env:
    return vf.Env(taskset=vf.load_taskset(config=config.taskset), harness=vf.Harness(config=config.harness))
