"""What a worker tells of its share of an evaluation, without running anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone
from envhub.protocol.evals.shards import HeldRange, ShardOrders, ShardReport

from hub.evals.models import Evaluation
from hub.evals.services import report_shard
from hub.evals.work import Range, merged, without
from hub.runs.errors import StaleAttempt
from hub.runs.models import Run
from tests.factories.evals import make_record, store


@dataclass
class Reporter:
    """What a worker does with one run, without running anything."""

    evaluation: Evaluation
    run: Run
    examples: int
    grouped: bool = False
    held: list[Range] = field(default_factory=list)
    in_flight: int = 0
    rate: float = 0.0
    number: int = 0
    orders: ShardOrders = field(default_factory=lambda: ShardOrders(concurrency=0, share=0))

    def report(
        self, wants: int = 0, *, done: Iterable[Range] = (), lose: bool = False, again: bool = False, **fields: Any
    ) -> ShardOrders:
        """Tell the hub. done: of `held`. lose: the answer never comes. again: the last report once more."""
        self.number += not again
        held = without(self.held, done)
        each = self.evaluation.config["rollouts_per_example"]
        report = ShardReport(
            number=self.number,
            examples=self.examples,
            grouped=self.grouped,
            held=as_held(held),
            done=as_held(done),
            wants=wants,
            **{"in_flight": self.in_flight, "rate": self.rate, "unbegun": each * count(held), **fields},
        )
        orders = report_shard(
            run=self.run, evaluation=self.evaluation, report=report, now=timezone.now(), guard=self._guard
        )
        if not lose:
            self.held = merged([*held, *((piece.first, piece.stop) for piece in orders.ranges)])
            self.orders = orders
        return orders

    def finish(self, *, store_them: bool = True) -> ShardOrders:
        """All that it holds is done."""
        each = self.evaluation.config["rollouts_per_example"]
        if store_them and self.held:
            store(self.evaluation, [make_record(e, r) for a, b in self.held for e in range(a, b) for r in range(each)])
        return self.report(done=self.held)

    def _guard(self) -> None:
        if not Run.objects.filter(pk=self.run.pk, attempt=self.run.attempt, state__in=["leased", "running"]).exists():
            raise StaleAttempt


def as_held(ranges: Iterable[Range]) -> tuple[HeldRange, ...]:
    return tuple(HeldRange(first=first, stop=stop) for first, stop in ranges)


def count(ranges: Iterable[Range]) -> int:
    return sum(stop - first for first, stop in ranges)
