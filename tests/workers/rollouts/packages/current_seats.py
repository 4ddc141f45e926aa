"""A duel of two seats whose rewards add up to nothing, with a referee that is not trained."""

import verifiers.v1 as vf

__all__ = ["DuelEnv", "DuelTaskset"]


class DuelData(vf.TaskData):
    pass


class DuelTask(vf.Task[DuelData, vf.State, vf.TaskConfig]):
    pass


class DuelConfig(vf.EnvConfig):
    first: vf.AgentConfig = vf.AgentConfig()
    second: vf.AgentConfig = vf.AgentConfig()
    referee: vf.AgentConfig = vf.AgentConfig()


class DuelEnv(vf.Env[DuelConfig]):
    async def setup(self, agents):
        agents.referee.trainable = False

    async def run(self, task, agents):
        said, traces = {}, {}
        for name in ("first", "second", "referee") if task.data.idx == 0 else ("referee",):
            words = f"You are {name}: yes or no?"
            given = vf.Task(vf.TaskData(idx=task.data.idx, prompt=words))
            traces[name] = await getattr(agents, name).run(given)
            said[name] = "yes" in str(traces[name].last_reply)
        if task.data.idx:
            return
        payoff = float(said["first"]) - float(said["second"])
        traces["first"].record_reward("payoff", payoff)
        traces["second"].record_reward("payoff", -payoff)
        traces["referee"].record_reward("payoff", float("nan"))


class DuelTaskset(vf.Taskset[DuelTask, vf.TasksetConfig]):
    def load(self):
        for idx in range(2):
            yield DuelTask(DuelData(idx=idx, prompt="duel"), vf.TaskConfig())
