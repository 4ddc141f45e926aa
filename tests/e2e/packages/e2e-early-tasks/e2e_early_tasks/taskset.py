"""Borrow a book; the rollouts of a task are compared."""

import verifiers.v1 as vf

from e2e_early_tasks.shelf import Shelf


class BookData(vf.TaskData):
    title: str


class Book(vf.Task[BookData]):
    tools = (Shelf,)

    @vf.stop
    async def enough(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= 3

    @vf.reward
    async def borrowed(self, trace: vf.Trace) -> float:
        return float(any(self.data.title in str(message.content) for message in trace.tool_messages))

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        return float(trace.num_turns)

    @vf.group_reward(weight=0.5)
    async def first_of_group(self, traces: list[vf.Trace]) -> list[float]:
        return [float(index == 0) for index, _ in enumerate(traces)]


class Borrowing(vf.Taskset[Book, vf.TasksetConfig]):
    def load(self) -> list[Book]:
        titles = ("Emma", "Ivanhoe", "Walden")
        return [
            Book(BookData(idx=i, prompt=f"Borrow {title}.", title=title), self.config.task)
            for i, title in enumerate(titles)
        ]
