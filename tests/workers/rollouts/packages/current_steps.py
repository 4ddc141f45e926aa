"""Five model calls of the current generation, four of a tool; each "yes" earns what STEPS says of its call."""

import verifiers.v1 as vf

__all__ = ["StepsTaskset"]

STEPS = (0.0, 0.0, 0.5, 0.0, 1.0)
MODES = ("steps", "advantages", "none", "unusable")  # of the tasks


class Asker(vf.Toolset[vf.SharedToolsetConfig]):
    @vf.tool
    async def ask(self) -> str:
        """Ask again."""
        return "and now?"


class StepsData(vf.TaskData):
    mode: str = "steps"


class StepsTask(vf.Task[StepsData, vf.State, vf.TaskConfig]):
    @vf.reward(weight=1.0)
    async def total(self, trace: vf.Trace) -> float:
        answers = [node for node in trace.nodes if node.sampled]
        if self.data.mode == "advantages":
            for number, node in enumerate(answers):
                node.advantages = [float(number)]
        elif self.data.mode == "unusable":
            trace.info["step_rewards"] = [1.0]
        elif self.data.mode == "steps":
            earned = [step * ("yes" in str(node.message.content)) for step, node in zip(STEPS, answers, strict=True)]
            trace.info["step_rewards"] = [value or None for value in earned]
        return 7.0


class StepsTaskset(vf.Taskset[StepsTask, vf.TasksetConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Asker(vf.SharedToolsetConfig())]

    def load(self):
        for number, mode in enumerate(MODES):
            yield StepsTask(StepsData(idx=number, prompt="yes or no?", mode=mode), vf.TaskConfig())
