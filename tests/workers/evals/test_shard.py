"""A run's share of an evaluation: begun in order, reported, given back from its end, never more than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from envhub.protocol.evals.shards import DoneExample, ExampleRange, ShardOrders, ShardReport

from workers.evals import shard as shard_module
from workers.evals.shard import Shard
from workers.rollouts.schedule import Unit


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"REPORT_S": 0.05, "HUNGRY_S": 0.02, "SOONEST_S": 0.01}.items():
        monkeypatch.setattr(shard_module, name, seconds)


@dataclass
class Hub:
    """Answers reports by a script; then with the last answer again, without its ranges."""

    answers: list[ShardOrders]
    reports: list[ShardReport] = field(default_factory=list)
    began: list[tuple[int, int]] = field(default_factory=list)
    settled: int = 0
    unsent: list[RolloutRecord] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0
    most: int = 0

    async def tell(self, report: ShardReport) -> ShardOrders:
        self.reports.append(report)
        answer = self.answers[0]
        self.answers = self.answers[1:] or [answer.model_copy(update={"ranges": ()})]
        return answer

    async def settle(self) -> None:
        self.settled += 1
        self.shard.note_sent(self.unsent)
        self.unsent.clear()

    def make(self, *, grouped: bool = False, rollouts: int = 1, concurrency: int = 4) -> Shard:
        self.shard = Shard(
            self.tell, self.settle, examples=100, rollouts=rollouts, grouped=grouped, concurrency=concurrency
        )
        return self.shard

    async def run(self, unit: Unit) -> None:
        self.began.append((unit.example, unit.first))
        self.in_flight += unit.n
        self.most = max(self.most, self.in_flight)
        await self.open.wait()
        await asyncio.sleep(0.001)
        self.in_flight -= unit.n
        self.shard.note_sent([record(unit.example, unit.first + index) for index in range(unit.n)])


def record(example: int, rollout: int) -> RolloutRecord:
    return RolloutRecord(example=example, rollout=rollout, example_hash="", outcome=Outcome.OK)


def given(first: int, stop: int, *done: DoneExample) -> tuple[ExampleRange, ...]:
    return (ExampleRange(first=first, stop=stop, done=done),)


def orders(**fields: Any) -> ShardOrders:
    return ShardOrders(**{"concurrency": 4, "share": 4, **fields})


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def working(hub: Hub, **options: Any) -> AsyncIterator[Shard]:
    shard = hub.make(**options)
    await shard.begin()
    task = asyncio.create_task(shard.work(hub.run))
    yield shard
    hub.open.set()
    async with asyncio.timeout(5):
        await task


def held(report: ShardReport) -> list[tuple[int, int]]:
    return [(one.first, one.stop) for one in report.held]


async def test_what_is_missing_is_run_in_order_and_reported_as_done() -> None:
    hub = Hub([orders(ranges=given(3, 7, DoneExample(example=4, example_hash="a", rollouts=(0,)))), orders()])
    async with working(hub):
        hub.open.set()
        await until(lambda: any(report.done for report in hub.reports))
        hub.answers[0] = orders(end=True)
    assert hub.began == [(3, 0), (5, 0), (6, 0)]
    assert [(one.first, one.stop) for report in hub.reports for one in report.done] == [(3, 7)]
    assert [report.number for report in hub.reports] == list(range(1, len(hub.reports) + 1))


async def test_no_more_is_in_flight_than_the_hub_allows_and_what_it_allows_may_change() -> None:
    hub = Hub([orders(ranges=given(0, 60), concurrency=2), orders(concurrency=2)])
    async with working(hub) as shard:
        await until(lambda: len(hub.began) == 2)
        hub.answers[0] = orders(concurrency=5)
        await until(lambda: len(hub.began) == 5)
        hub.answers[0] = orders(concurrency=0)
        await until(lambda: hub.reports[-1].in_flight == 5)
        await asyncio.sleep(0.1)
        hub.open.set()
        await until(lambda: not hub.in_flight)
        began = len(hub.began)
        await asyncio.sleep(0.1)
        assert (len(hub.began), hub.most, shard.in_flight) == (began, 5, 0)
        hub.answers[0] = orders(end=True)


async def test_what_others_need_is_given_back_from_the_end_and_never_what_has_begun() -> None:
    hub = Hub([orders(ranges=given(0, 10)), orders(give_back=4)])
    async with working(hub, rollouts=2) as shard:
        await until(lambda: held(hub.reports[-1]) == [(0, 8)])
        hub.answers[0] = orders(give_back=1000)
        await until(lambda: held(hub.reports[-1]) == [(0, 2)])  # 4 in flight
        assert shard.unbegun == 0
        hub.answers[0] = orders(end=True)
    assert sorted(hub.began) == [(0, 0), (0, 1), (1, 0), (1, 1)]


async def test_an_example_that_has_begun_stays_whole() -> None:
    hub = Hub([orders(ranges=given(0, 3), concurrency=3), orders(concurrency=3, give_back=1000)])
    async with working(hub, rollouts=2):
        await until(lambda: held(hub.reports[-1]) == [(0, 2)])
        hub.open.set()
        await until(lambda: len(hub.began) == 4)
        hub.answers[0] = orders(end=True)
    assert max(hub.began) == (1, 1)


async def test_a_run_that_is_to_leave_finishes_what_has_begun_and_gives_back_the_rest_at_once() -> None:
    hub = Hub([orders(ranges=given(0, 50)), orders(end=True)])
    async with working(hub):
        await until(lambda: held(hub.reports[-1]) == [(0, 4)])
        assert len(hub.began) == 4
    assert len(hub.began) == 4
    assert hub.in_flight == 0


async def test_more_is_asked_for_before_there_is_nothing_left_to_begin() -> None:
    hub = Hub([orders(ranges=given(0, 7)), orders()])
    async with working(hub):
        await until(lambda: len(hub.reports) > 1)
        assert (hub.reports[1].unbegun, hub.reports[1].wants) == (3, 5)
        hub.answers[0] = orders(ranges=given(7, 12))
        hub.open.set()
        await until(lambda: len(hub.began) == 12)
        hub.answers[0] = orders(end=True)


async def test_what_is_held_back_is_settled_when_nothing_is_left_to_run() -> None:
    hub = Hub([orders(ranges=given(0, 1)), orders()])

    async def run(unit: Unit) -> None:  # its record is kept for later
        hub.began.append((unit.example, unit.first))
        hub.unsent.append(record(unit.example, unit.first))

    shard = hub.make()
    await shard.begin()
    task = asyncio.create_task(shard.work(run))
    await until(lambda: any(report.done for report in hub.reports))
    hub.answers[0] = orders(end=True)
    await task


async def test_a_group_larger_than_what_may_be_in_flight_runs_alone() -> None:
    hub = Hub([orders(ranges=given(0, 2)), orders()])
    async with working(hub, rollouts=9, grouped=True):
        await until(lambda: hub.in_flight == 9)
        hub.open.set()
        await until(lambda: len(hub.began) == 2)
        hub.answers[0] = orders(end=True)
    assert hub.most == 9


async def test_before_anything_has_finished_the_rate_is_what_it_is_at_most() -> None:
    hub = Hub([orders(ranges=given(0, 50)), orders()])
    async with working(hub):
        await until(lambda: len(hub.reports) > 3)
        first, *_, last = [report.rate for report in hub.reports if report.rate]
        assert 4 / 5 < last < first <= 4 / shard_module.REPORT_S
        hub.open.set()
        await until(lambda: hub.reports[-1].finished > 20)
        hub.answers[0] = orders(end=True)
    assert hub.reports[0].rate == 0.0


async def test_the_first_error_ends_the_work_as_it_is() -> None:
    hub = Hub([orders(ranges=given(0, 8)), orders()])

    async def run(unit: Unit) -> None:
        if unit.example == 3:
            raise KeyError("three")
        await asyncio.sleep(60)

    shard = hub.make()
    await shard.begin()
    with pytest.raises(KeyError, match="three"):
        await shard.work(run)
