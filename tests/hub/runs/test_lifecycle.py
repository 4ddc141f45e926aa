"""The life of runs against whatever may happen in any order: no attempt acts beside its successor, nothing is stuck."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from django.utils import timezone
from envhub.protocol.runs import BeatRequest, Failure, FailureKind, FinishRequest, RunState
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hub.core.errors import Conflict, NotAuthenticated
from hub.runs.authentication import grant_of_run_token
from hub.runs.errors import NotClaimable
from hub.runs.models import Run, Worker
from hub.runs.services import (
    cancel_overdue,
    claim_run,
    expire_leases,
    finish_run,
    heartbeat_run,
    receive_beat,
    request_cancel,
    start_run,
)
from hub.runs.transitions import HELD
from tests.factories.accounts import make_user
from tests.factories.runs import make_run, make_worker
from tests.hub.runs.conftest import Recorder, Sent

pytestmark = pytest.mark.django_db
MOST_RUNS = 4
FAILURES = {
    kind: Failure(kind=kind, code="x", message="x") for kind in (FailureKind.INFRASTRUCTURE, FailureKind.ENVIRONMENT)
}
ENDS = (
    FinishRequest(state=RunState.SUCCEEDED),
    FinishRequest(state=RunState.CANCELLED),
    FinishRequest(state=RunState.QUEUED, failure=FAILURES[FailureKind.INFRASTRUCTURE]),
    *(FinishRequest(state=RunState.FAILED, failure=failure) for failure in FAILURES.values()),
)
numbers = st.integers(0, 99)


@dataclass(frozen=True)
class Attempt:
    """A claim in a worker's hands. The worker may be dead to the hub and go on all the same."""

    run_id: str
    number: int
    token: str


class Lifecycle(RuleBasedStateMachine):
    """Two workers, a broker that loses and doubles, users who cancel, a clock that jumps, a sweeper."""

    sent: ClassVar[list[Sent]]  # the broker: what it holds, and may deliver any number of times
    clock: ClassVar[datetime]  # never goes back, also not between two examples

    @initialize()
    def begin(self) -> None:
        """Nothing is there yet."""
        self.sent.clear()
        self.user = make_user()
        self.workers = [make_worker(queues=("eval",), now=self.clock) for _ in range(2)]
        self.runs: list[Run] = []
        self.attempts: list[Attempt] = []
        self.last: dict[str, tuple[int, str]] = {}  # run -> attempt and final state as last seen

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule()
    def submit(self) -> None:
        """A user starts something."""
        self.runs.append(make_run(owner=self.user.owner, created_by=self.user, max_attempts=3))

    @rule(which=numbers, room=st.integers(0, 3))
    def beat(self, which: int, room: int) -> None:
        """A worker says what it has room for."""
        worker = self._worker(which)
        receive_beat(worker=worker, beat=BeatRequest(room={"eval": room}), now=self.clock)

    @precondition(lambda self: self.sent)
    @rule(which=numbers, keep=st.booleans())
    def deliver(self, which: int, keep: bool) -> None:
        """A message arrives, and perhaps once more later."""
        message = self.sent[which % len(self.sent)]
        if not keep:
            self.sent.remove(message)
        worker = next(worker for worker in self.workers if message.queue == f"eval.{worker.pk}")
        try:
            claim = claim_run(run_id=message.run_id, worker=self._fresh(worker), now=self.clock)
        except NotClaimable:
            return
        assert all((old.run_id, old.number) != (claim.run_id, claim.attempt) for old in self.attempts), "given twice"
        self.attempts.append(Attempt(claim.run_id, claim.attempt, claim.token))

    @precondition(lambda self: self.sent)
    @rule(which=numbers)
    def lose(self, which: int) -> None:
        """A message, for ever."""
        del self.sent[which % len(self.sent)]

    @precondition(lambda self: self.attempts)
    @rule(which=numbers)
    def start(self, which: int) -> None:
        """A worker begins, or begins again because the answer was lost."""
        self._act(which, lambda run: start_run(run=run, now=self.clock))

    @precondition(lambda self: self.attempts)
    @rule(which=numbers)
    def heartbeat(self, which: int) -> None:
        """A worker renews its lease."""
        self._act(which, lambda run: heartbeat_run(run=run, progress=None, now=self.clock))

    @precondition(lambda self: self.attempts)
    @rule(which=numbers, end=st.sampled_from(ENDS))
    def finish(self, which: int, end: FinishRequest) -> None:
        """A worker has its last word; saying it again is possible too."""
        self._act(which, lambda run: finish_run(run=run, request=end, now=self.clock))

    @precondition(lambda self: self.runs)
    @rule(which=numbers)
    def cancel(self, which: int) -> None:
        """A user wants no more of a run."""
        run = self.runs[which % len(self.runs)]
        if self.last[str(run.pk)][1] in ("", RunState.CANCELLED):
            request_cancel(run=run, now=self.clock)

    @rule(seconds=st.sampled_from([1, 6, 20, 45, 400]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        type(self).clock += timedelta(seconds=seconds)

    @rule()
    def sweep(self) -> None:
        """The sweeper comes by."""
        expire_leases(self.clock)
        cancel_overdue(self.clock)

    @invariant()
    def every_run_is_in_order(self) -> None:
        """What must be true of each, whatever happened."""
        for run in self._rows():
            state, (attempt, final) = RunState(run.state), self.last.get(str(run.pk), (0, ""))
            assert run.attempt >= attempt
            assert not final or (run.state, run.attempt) == (final, attempt), "an ended run moved"
            assert (run.worker_id is not None and run.lease_expires_at is not None) or state not in HELD
            assert state is not RunState.QUEUED or run.worker_id is None
            assert state is not RunState.FAILED or run.failure
            self.last[str(run.pk)] = (run.attempt, run.state if state.is_final else "")

    def teardown(self) -> None:
        """Two good workers and some time, and everything ends."""
        for _ in range(40):
            self.wait(400)
            self.sweep()
            for which in range(2):
                self.beat(which, 3)
            while self.sent:
                self.deliver(0, keep=False)
            for which in range(len(self.attempts)):
                self.start(which)
                self.finish(which, ENDS[0])
            self.every_run_is_in_order()
            if all(final for _, final in self.last.values()):
                return
        raise AssertionError(f"stuck: {[(run.state, run.attempt, run.sends) for run in self._rows()]}")

    def _act(self, which: int, act: Any) -> None:
        """As the API does: by the attempt's token, and with the row as it is then. A stale attempt changes nothing."""
        attempt = self.attempts[which % len(self.attempts)]
        before = Run.objects.get(pk=attempt.run_id)
        try:
            grant_of_run_token(attempt.token)
            act(before)
        except (Conflict, NotAuthenticated):  # stale, or a success of what never began
            after = Run.objects.get(pk=attempt.run_id)
            assert (after.state, after.attempt) == (before.state, before.attempt)
        else:
            assert before.attempt == attempt.number, "an old attempt was listened to"

    def _rows(self) -> list[Run]:
        return list(Run.objects.filter(pk__in=[run.pk for run in self.runs]))

    def _worker(self, which: int) -> Worker:
        return self._fresh(self.workers[which % len(self.workers)])

    def _fresh(self, worker: Worker) -> Worker:
        return Worker.objects.select_related("token").get(pk=worker.pk)


@pytest.mark.parametrize("examples", [12, pytest.param(400, marks=pytest.mark.matrix)])
def test_whatever_happens_no_run_is_stuck_and_no_attempt_acts_beside_its_successor(
    recorder: Recorder, sent: list[Sent], examples: int
) -> None:
    Lifecycle.sent, Lifecycle.clock = sent, timezone.now()
    wanted = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        phases=[Phase.generate],  # shrinking takes minutes, and the steps that are printed are few
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Lifecycle, settings=wanted)
