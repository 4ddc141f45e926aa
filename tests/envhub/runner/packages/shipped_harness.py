"""A taskset that is run, unless told otherwise, by a harness of verifiers itself, which it exports beside its own."""

import verifiers.v1 as vf
from verifiers.v1.harnesses.null import NullHarness

__all__ = ["Greetings", "NullHarness"]


class Greeting(vf.Task[vf.TaskData]):
    @vf.reward
    async def greeted(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == "hello")


class Greetings(vf.Taskset[Greeting, vf.TasksetConfig]):
    def load(self) -> list[Greeting]:
        return [Greeting(vf.TaskData(idx=0, prompt="Greet me."), self.config.task)]
