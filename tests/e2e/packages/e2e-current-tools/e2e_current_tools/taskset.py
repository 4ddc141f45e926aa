"""Visitors' wishes."""

import itertools

import verifiers.v1 as vf

from e2e_current_tools.basket import Basket, BasketConfig, BasketState
from e2e_current_tools.catalogue import Catalogue, CatalogueConfig


class VisitData(vf.TaskData):
    visitor: str


class VisitConfig(vf.TaskConfig):
    basket: BasketConfig = BasketConfig()


class Visit(vf.Task[VisitData, BasketState, VisitConfig]):
    @classmethod
    def toolsets(cls, config: VisitConfig) -> list[vf.Toolset]:
        return [Basket(config.basket)]

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        trace.state.books = []

    @vf.stop
    async def overloaded(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= 6

    @vf.reward(weight=1.0)
    async def borrowed(self, trace: vf.Trace) -> float:
        return float(bool(trace.state.books))

    @vf.reward(weight=0.5)
    async def answered(self, trace: vf.Trace) -> float:
        return float(bool(trace.last_reply))

    @vf.metric
    async def books(self, trace: vf.Trace) -> float:
        return float(len(trace.state.books))


class LibraryConfig(vf.TasksetConfig):
    task: VisitConfig = VisitConfig()
    visitors: int = 4
    endless: bool = False


class Library(vf.Taskset[Visit, LibraryConfig]):
    @classmethod
    def toolsets(cls, config: LibraryConfig) -> list[vf.Toolset]:
        return [Catalogue(CatalogueConfig())]

    def __init__(self, config: LibraryConfig) -> None:
        super().__init__(config)
        self.INFINITE = config.endless

    def load(self):
        numbers = itertools.count() if self.config.endless else range(self.config.visitors)
        for number in numbers:
            data = VisitData(idx=number, prompt=f"Visitor {number} wants Emma.", visitor=f"visitor {number}")
            yield Visit(data, self.config.task)
