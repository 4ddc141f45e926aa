"""A taskset of the current generation that can go wrong by its `mode`, with a shared and a per-rollout tool server."""

import asyncio
import itertools
import time

import verifiers.v1 as vf

__all__ = ["WordsTaskset"]


class WordsData(vf.TaskData):
    answer: str
    mode: str = "plain"


class AdderConfig(vf.SharedToolsetConfig):
    offset: int = 0


class Adder(vf.Toolset[AdderConfig]):
    @vf.tool
    async def add(self, a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b + self.config.offset)


class CounterState(vf.State):
    calls: int = 0


class CounterConfig(vf.ToolsetConfig):
    pass


class Counter(vf.Toolset[CounterConfig, CounterState]):
    TOOL_PREFIX = None

    async def setup_task(self, task) -> None:
        self.word = task.prompt

    @vf.tool
    async def count(self, by: int = 1) -> str:
        """Count up, in the rollout's own state."""
        if by < 0:
            raise ValueError("only upwards")
        self.state.calls += by
        return f"{self.word}: {self.state.calls}"


class WordsTaskConfig(vf.TaskConfig):
    counter: bool = False


class WordsTask(vf.Task[WordsData, CounterState, WordsTaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Counter(CounterConfig())] if config.counter else []

    @vf.metric
    async def counted(self, trace: vf.Trace) -> float:
        return float(trace.state.calls)

    @vf.reward(weight=2.0)
    async def said(self, trace: vf.Trace) -> float:
        if self.data.mode == "bad-reward":
            raise ValueError("the reward broke")
        if self.data.mode == "hanging-reward":
            await asyncio.sleep(3600)
        if self.data.mode == "blocking-reward":
            time.sleep(3600)  # noqa: ASYNC251 - on purpose
        return float(bool(trace.last_reply.strip()))

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        if self.data.mode == "hang":
            await asyncio.sleep(3600)
        if self.data.mode == "env-error":
            raise KeyError("no such key")


class WordsConfig(vf.TasksetConfig):
    task: WordsTaskConfig = WordsTaskConfig()
    num_tasks: int = 5
    mode: str = "plain"
    tools: bool = False
    endless: bool = False


class WordsTaskset(vf.Taskset[WordsTask, WordsConfig]):
    def __init__(self, config):
        super().__init__(config)
        self.INFINITE = config.endless

    def load(self):
        numbers = itertools.count() if self.config.endless else range(self.config.num_tasks)
        for number in numbers:
            data = WordsData(idx=number, prompt=f"say {number}", answer=str(number), mode=self.config.mode)
            yield WordsTask(data, self.config.task)

    @classmethod
    def toolsets(cls, config):
        return [Adder(AdderConfig(offset=100))] if config.tools else []
