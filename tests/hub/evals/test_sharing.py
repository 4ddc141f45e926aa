"""Workers' real shards against the hub's real accounting, with lost answers and lost workers: no rollout is lost, none
is run by two at a time, and no more are in flight than the evaluation may have."""

from __future__ import annotations

import asyncio
import queue
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pytest
from django.utils import timezone
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.evals.shards import ShardOrders, ShardReport
from envhub.protocol.runs import RunState

from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.services import report_shard
from hub.runs.models import Run
from hub.runs.services import end_attempt
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_record, start, store
from tests.factories.runs import hold_run, make_run
from workers.evals import shard as shard_module
from workers.evals.shard import Shard
from workers.rollouts.schedule import Unit

pytestmark = pytest.mark.django_db
Answer = TypeVar("Answer")
EXAMPLES, ROLLOUTS, CONCURRENCY = 150, 2, 12


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"REPORT_S": 0.02, "HUNGRY_S": 0.01, "SOONEST_S": 0.002}.items():
        monkeypatch.setattr(shard_module, name, seconds)


class Database:
    """Does what the shards' thread asks for, in the thread that has the test's transaction."""

    def __init__(self) -> None:
        self._asked: queue.Queue[tuple[Callable[[], Any], Future[Any]]] = queue.Queue()

    async def __call__(self, do: Callable[[], Answer]) -> Answer:
        answer: Future[Answer] = Future()
        self._asked.put((do, answer))
        return await asyncio.wrap_future(answer)

    def serve(self, scene: Coroutine[Any, Any, None]) -> None:
        """Until the scene has ended; raises what it raised."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(asyncio.run, scene)
            while not running.done() or not self._asked.empty():
                try:
                    do, answer = self._asked.get(timeout=0.01)
                except queue.Empty:
                    continue
                if answer.set_running_or_notify_cancel():  # else it has died before the hub heard of it
                    try:
                        answer.set_result(do())
                    except Exception as error:  # noqa: BLE001  whoever asked gets it
                        answer.set_exception(error)
            running.result()


@dataclass
class Scene:
    """All workers; what runs in them now, and how often each rollout was begun and finished."""

    evaluation: Evaluation
    database: Database
    grouped: bool
    dice: random.Random
    now: Counter[tuple[int, int]] = field(default_factory=Counter)
    finished: Counter[tuple[int, int]] = field(default_factory=Counter)
    in_flight: Counter[str] = field(default_factory=Counter)
    most: int = 0
    twice: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Hand:
    """One run in a worker's hands."""

    scene: Scene
    run: Run
    unsent: list[RolloutRecord] = field(default_factory=list)

    async def work(self) -> None:
        scene = self.scene
        self.shard = Shard(
            self.tell,
            self.settle,
            examples=EXAMPLES,
            rollouts=ROLLOUTS,
            grouped=scene.grouped,
            concurrency=CONCURRENCY,
        )
        await self.shard.begin()
        await self.shard.work(self.unit)
        await self.settle()
        await scene.database(lambda: end(self.run, RunState.SUCCEEDED))

    async def tell(self, report: ShardReport) -> ShardOrders:
        """A client that repeats what was not answered."""
        while True:
            orders = await self.scene.database(partial(self._report, report))
            if self.scene.dice.random() > 0.2:
                return orders

    def _report(self, report: ShardReport) -> ShardOrders:
        evaluation, now = self.scene.evaluation, timezone.now()
        return report_shard(run=self.run, evaluation=evaluation, report=report, now=now, guard=lambda: None)

    async def settle(self) -> None:
        while records := list(self.unsent):
            await self.scene.database(lambda: store(self.scene.evaluation, records))
            del self.unsent[: len(records)]

    async def unit(self, unit: Unit) -> None:
        scene, keys = self.scene, [(unit.example, unit.first + index) for index in range(unit.n)]
        scene.twice += [key for key in keys if scene.now[key]]
        scene.now.update(keys)
        scene.in_flight[str(self.run.pk)] += unit.n
        scene.most = max(scene.most, scene.in_flight.total())
        try:
            await asyncio.sleep(scene.dice.uniform(0.001, 0.02))
            scene.finished.update(keys)
            records = [make_record(*key) for key in keys]
            self.unsent += records
            self.shard.note_sent(records)
        finally:
            scene.now.subtract(keys)
            scene.in_flight[str(self.run.pk)] -= unit.n


def end(run: Run, state: RunState) -> None:
    row = Run.objects.get(pk=run.pk)
    if not RunState(row.state).is_final:
        end_attempt(run=row, to=state, now=timezone.now())


def another(first: Run) -> Run:
    run = make_run(owner=first.owner, parent=first)
    hold_run(run)
    return run


async def play(scene: Scene, own: Run, killed: Counter[tuple[int, int]]) -> None:
    """Others join every moment; every third moment one of them dies, with all that it had not sent."""
    first = asyncio.create_task(Hand(scene, own).work())
    others: list[tuple[Hand, asyncio.Task[None]]] = []
    for moment in range(8):
        await asyncio.sleep(0.05)
        hand = Hand(scene, await scene.database(lambda: another(own)))
        others.append((hand, asyncio.create_task(hand.work())))
        if moment % 3 == 2:
            lost, task = others.pop(scene.dice.randrange(len(others)))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            killed.update((record.example, record.rollout) for record in lost.unsent)
            await scene.database(partial(end, lost.run, RunState.CANCELLED))
    async with asyncio.timeout(30):
        await asyncio.gather(first, *(task for _, task in others))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.matrix), 2])
def test_an_evaluation_by_many_that_come_and_go(seed: int) -> None:
    database, killed = Database(), Counter[tuple[int, int]]()
    evaluation = create_hosted(
        make_user("alice"), num_examples=-1, rollouts_per_example=ROLLOUTS, concurrency=CONCURRENCY
    )
    start(evaluation)
    assert evaluation.run is not None
    scene = Scene(evaluation, database, grouped=seed == 2, dice=random.Random(seed))
    database.serve(play(scene, evaluation.run, killed))
    stored = set(RolloutIndex.objects.filter(evaluation=evaluation).values_list("example", "rollout"))
    assert stored == {(example, rollout) for example in range(EXAMPLES) for rollout in range(ROLLOUTS)}
    assert scene.twice == []
    assert CONCURRENCY / 2 < scene.most <= CONCURRENCY
    again = {key for key, times in scene.finished.items() if times > 1}
    assert again <= set(killed)  # only what a dead worker had not sent was run again
