"""An evaluation and the parts that share it, against whatever may happen in any order: no example is in two hands, and
in the end every rollout is stored, or the evaluation says why not, and no run, part or slot is left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any, ClassVar

import pytest
from django.conf import settings as django_settings
from django.db.models import QuerySet
from django.utils import timezone
from envhub.protocol.runs import BeatRequest, Failure, FailureKind, FinishRequest, RunState
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from hub.core.errors import Conflict, NotAuthenticated
from hub.evals.models import Evaluation, RolloutIndex, Shard
from hub.evals.services import add_segment, resume_evaluation
from hub.evals.services.shards import ranges_of
from hub.evals.work import Range, within
from hub.runs.authentication import grant_of_run_token
from hub.runs.errors import NotClaimable
from hub.runs.models import Lane, Run, Worker
from hub.runs.services import (
    cancel_overdue,
    claim_run,
    expire_leases,
    finish_run,
    heartbeat_run,
    receive_beat,
    request_cancel,
    start_run,
    withdraw_orphans,
)
from hub.runs.transitions import HELD, OPEN
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_record, make_segment
from tests.factories.runs import make_worker
from tests.fakes.reporter import Reporter
from tests.hub.runs.conftest import Sent, sent  # noqa: F401  a fixture

pytestmark = pytest.mark.django_db
EXAMPLES, ROLLOUTS, WORKERS = 8, 2, 3
LOST = Failure(kind=FailureKind.INFRASTRUCTURE, code="x", message="x")
EARLY = (FinishRequest(state=RunState.QUEUED, failure=LOST), FinishRequest(state=RunState.FAILED, failure=LOST))
numbers = st.integers(0, 99)


@dataclass
class Hand:
    """A claimed attempt of the evaluation's own run or of a part, in a worker that may be dead to the hub."""

    token: str
    reporter: Reporter
    ended: bool = False  # the hub told it to end


class SpreadEvaluation(RuleBasedStateMachine):
    """Three workers, a broker that loses and doubles, a user who cancels and resumes, time, a sweeper."""

    sent: ClassVar[list[Sent]]
    clock: ClassVar[datetime]  # never goes back, also not between two examples

    @initialize()
    def begin(self) -> None:
        """It waits for its first worker."""
        self.sent.clear()
        self.user = make_user()
        self.workers = [make_worker(queues=("eval",), now=self.clock) for _ in range(WORKERS)]
        size = {"num_examples": EXAMPLES, "rollouts_per_example": ROLLOUTS, "concurrency": 64}
        self.evaluation = create_hosted(self.user, **size)
        self.hands: list[Hand] = []

    @rule(which=numbers, room=st.integers(0, 2))
    def beat(self, which: int, room: int) -> None:
        """A worker says what it has room for."""
        worker = Worker.objects.select_related("token").get(pk=self.workers[which % WORKERS].pk)
        receive_beat(worker=worker, beat=BeatRequest(room={"eval": room}), now=self.clock)

    @precondition(lambda self: self.sent)
    @rule(which=numbers, keep=st.booleans())
    def deliver(self, which: int, keep: bool) -> None:
        """A message arrives, and perhaps once more later."""
        message = self.sent[which % len(self.sent)]
        if not keep:
            self.sent.remove(message)
        worker = next(worker for worker in self.workers if message.queue == f"eval.{worker.pk}")
        worker = Worker.objects.select_related("token").get(pk=worker.pk)
        try:
            claim = claim_run(run_id=message.run_id, worker=worker, now=self.clock)
        except NotClaimable:
            return
        run = start_run(run=Run.objects.get(pk=claim.run_id), now=self.clock)
        self.hands.append(Hand(claim.token, Reporter(self.evaluation, run, EXAMPLES, rate=0.01)))

    @precondition(lambda self: self.hands)
    @rule(which=numbers, most=st.integers(0, 3), wants=st.integers(0, 6), lose=st.booleans())
    def work(self, which: int, most: int, wants: int, lose: bool) -> None:
        """A worker stores some of what it holds, then reports; the answer may be lost."""
        hand = self.hands[which % len(self.hands)]

        def do(run: Run) -> None:
            done = first_of(hand.reporter.held, most)
            self._store(hand, done)
            hand.ended = hand.reporter.report(wants=wants, done=done, lose=lose, unbegun=0).end and not lose

        self._as(hand, do)

    @precondition(lambda self: self.hands)
    @rule(which=numbers)
    def heartbeat(self, which: int) -> None:
        """A worker renews its lease."""
        self._as(self.hands[which % len(self.hands)], lambda run: heartbeat_run(run=run, progress=None, now=self.clock))

    @precondition(lambda self: self.hands)
    @rule(which=numbers, end=st.sampled_from(EARLY))
    def stop(self, which: int, end: FinishRequest) -> None:
        """A worker ends: as it should when it was told to, else because it shuts down or fails."""
        hand = self.hands[which % len(self.hands)]
        request = FinishRequest(state=RunState.SUCCEEDED) if hand.ended else end
        self._as(hand, lambda run: finish_run(run=run, request=request, now=self.clock))

    @rule()
    def cancel(self) -> None:
        """The user wants no more of it."""
        if (run := self._own_run()).state in OPEN:
            request_cancel(run=run, now=self.clock)

    @rule()
    def resume(self) -> None:
        """The user wants the rest after all."""
        evaluation = Evaluation.objects.get(pk=self.evaluation.pk)
        if evaluation.is_final and evaluation.aggregate.get("stored", 0) < EXAMPLES * ROLLOUTS:
            resume_evaluation(user=self.user, evaluation=evaluation)

    @rule(seconds=st.sampled_from([1, 6, 45, 400]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        type(self).clock += timedelta(seconds=seconds)

    @rule()
    def sweep(self) -> None:
        """The sweeper comes by."""
        withdraw_orphans()
        cancel_overdue(self.clock)
        expire_leases(self.clock)

    @invariant()
    def nothing_is_in_two_hands(self) -> None:
        """What must be true whatever happened."""
        evaluation = Evaluation.objects.get(pk=self.evaluation.pk)
        shards = list(Shard.objects.filter(evaluation=evaluation))
        free: list[Range] = [(first, stop) for first, stop in evaluation.work.get("free", ())]
        in_hands = [ranges_of(shard) for shard in shards]
        assert all(not within(one, other) for one, other in combinations([free, *in_hands], 2))
        held = set(self._runs().filter(state__in=HELD).values_list("pk", flat=True))
        assert {shard.run_id for shard in shards} <= held, "a run that nobody has holds work"
        assert not Lane.objects.filter(room__lt=0).exists()
        assert not self._runs().filter(state__in=HELD, worker=None).exists()
        for run in self._runs():
            assert run.attempt <= run.max_attempts
            assert run.state != RunState.FAILED or run.failure

    def teardown(self) -> None:
        """Good workers and some time: everything ends."""
        for _ in range(60):
            self.wait(400)
            self.sweep()
            for which in range(WORKERS):
                self.beat(which, 2)
            while self.sent:
                self.deliver(0, keep=False)
            for which in range(len(self.hands)):
                for _ in range(2):
                    self.work(which, EXAMPLES, EXAMPLES * ROLLOUTS, lose=False)
                if self.hands[which].ended:
                    self.stop(which, EARLY[0])
            self.nothing_is_in_two_hands()
            if not self._runs().filter(state__in=OPEN).exists():
                break
        self.check_the_end()

    def check_the_end(self) -> None:
        """Complete, or with a reason; nothing is left."""
        runs = list(self._runs().values_list("state", "attempt", "parent"))
        assert all(RunState(state).is_final for state, *_ in runs), f"stuck: {runs}"
        assert not Shard.objects.filter(evaluation=self.evaluation).exists()
        evaluation = Evaluation.objects.get(pk=self.evaluation.pk)
        stored = RolloutIndex.objects.filter(evaluation=evaluation).count()
        assert evaluation.aggregate.get("stored", 0) == stored
        if evaluation.state == RunState.SUCCEEDED:
            assert stored == EXAMPLES * ROLLOUTS
        elif evaluation.state == RunState.FAILED:
            assert self._own_run().failure

    def _store(self, hand: Hand, ranges: list[Range]) -> None:
        keys = [
            (example, rollout)
            for first, stop in ranges
            for example in range(first, stop)
            for rollout in range(ROLLOUTS)
        ]
        if keys:
            request = make_segment([make_record(*key) for key in keys])
            add_segment(evaluation=self.evaluation, request=request, trusted=True, guard=hand.reporter._guard)

    def _as(self, hand: Hand, act: Callable[[Run], Any]) -> None:
        """As the API does it: by the attempt's token. What is stale is refused."""
        try:
            grant_of_run_token(hand.token)
            act(Run.objects.get(pk=hand.reporter.run.pk))
        except (Conflict, NotAuthenticated):
            hand.ended = False

    def _runs(self) -> QuerySet[Run]:
        """Its own and its parts: other examples have left theirs."""
        return Run.objects.filter(created_by=self.user, queue="eval")

    def _own_run(self) -> Run:
        run = Evaluation.objects.select_related("run").get(pk=self.evaluation.pk).run
        assert run is not None
        return run


def first_of(held: list[Range], examples: int) -> list[Range]:
    """The first so many of what is held."""
    found: list[Range] = []
    for first, stop in held:
        piece = first, min(stop, first + examples)
        found += [piece] if piece[0] < piece[1] else []
        examples -= piece[1] - piece[0]
    return found


@pytest.mark.parametrize("examples", [4, pytest.param(300, marks=pytest.mark.matrix)])
def test_whatever_happens_a_spread_evaluation_ends_with_every_rollout_once(
    sent: list[Sent],  # noqa: F811
    examples: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spread = {"eval_spread_s": 1.0, "eval_shard_rollouts": 1}
    monkeypatch.setattr(django_settings, "HUB", django_settings.HUB.model_copy(update=spread))
    SpreadEvaluation.sent, SpreadEvaluation.clock = sent, timezone.now()
    wanted = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_machine(SpreadEvaluation, settings=wanted)
