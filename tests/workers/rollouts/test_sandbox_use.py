"""Whose fault a rollout's trouble with its sandboxes is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from envhub.protocol.runs import FailureKind

from tests.factories.evals import make_failure, make_record
from workers.broker.interface import Command, State, Wish
from workers.rollouts.sandbox_use import blamed

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def machine(
    state: State, *, by_host: bool = False, lacking: str = "", reason: str = "", waited_s: float | None = None
) -> Any:
    """As workers.broker.machine.Machine, once it has ended."""
    life = SimpleNamespace(by_host=by_host, lacking=lacking, image=None, waits_for="its image b")
    created = BEGAN + timedelta(seconds=1)
    ran = Command(("ls",), "/", BEGAN + timedelta(seconds=3), 0.5, 0, "a")
    return SimpleNamespace(
        id="a", wish=Wish(image="b"), state=state, reason=reason, life=life, cpus=1.0, memory_mb=5, commands=[ran],
        commands_dropped=0, created=created, started=created if waited_s is None else None,
        ended=created + timedelta(seconds=8 if waited_s is None else waited_s),
    )  # fmt: skip


def failed(kind: FailureKind = FailureKind.INFRASTRUCTURE) -> RolloutRecord:
    return make_failure(kind=kind)


@pytest.mark.parametrize(
    ("ended", "kind"),
    [
        (machine(State.FAILED, by_host=True), FailureKind.INFRASTRUCTURE),
        (machine(State.OUT_OF_MEMORY), FailureKind.LIMIT),
        (machine(State.TIMED_OUT), FailureKind.LIMIT),
        (machine(State.FAILED, lacking="python:9"), FailureKind.ENVIRONMENT),
        (machine(State.FAILED), FailureKind.POLICY),  # killed from within
        (machine(State.STOPPED), FailureKind.ENVIRONMENT),  # a command of its own failed
    ],
)
def test_trouble_with_a_sandbox_is_whose_doing_it_was(ended: Any, kind: FailureKind) -> None:
    record = blamed(failed(), [ended], BEGAN)
    assert record.failure is not None
    assert record.failure.kind is kind


def test_a_sandbox_that_is_refused_for_its_size_is_not_tried_again() -> None:
    record = blamed(failed(), [], BEGAN, refused="the sandbox is too large")
    assert record.failure is not None
    assert record.failure.kind is FailureKind.LIMIT
    assert record.failure.message.startswith("the sandbox is too large; ")


@pytest.mark.parametrize("kind", [FailureKind.LIMIT, FailureKind.INFRASTRUCTURE])
def test_a_rollout_whose_sandbox_did_not_come_in_time_is_tried_again(kind: FailureKind) -> None:
    record = blamed(failed(kind), [machine(State.STOPPED), machine(State.STOPPED, waited_s=100)], BEGAN)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.INFRASTRUCTURE
    assert record.failure.message.startswith("a sandbox was not ready after 100 s: it waited for its image b; ")


def test_a_sandbox_asked_for_at_the_end_of_the_time_is_no_excuse() -> None:
    record = blamed(failed(FailureKind.LIMIT), [machine(State.STOPPED, waited_s=2)], BEGAN)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.LIMIT


def test_a_score_is_lost_with_a_sandbox_that_the_host_ended() -> None:
    record = blamed(make_record(), [machine(State.FAILED, by_host=True)], BEGAN)
    assert (record.outcome, record.reward) == (Outcome.FAILED, None)


def test_a_model_that_broke_its_sandbox_is_scored_all_the_same() -> None:
    assert blamed(make_record(), [machine(State.OUT_OF_MEMORY)], BEGAN).outcome is Outcome.OK


def test_other_failures_stay_what_they_are() -> None:
    record = blamed(failed(FailureKind.VERIFIER), [machine(State.TIMED_OUT)], BEGAN)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.VERIFIER


def test_times_are_since_the_rollout_began() -> None:
    (use,) = blamed(make_record(), [machine(State.STOPPED)], BEGAN).sandboxes
    assert (use.created_s, use.seconds, use.commands[0].started_s) == (1.0, 8.0, 3.0)


def test_a_record_stays_small_however_much_was_done() -> None:
    many = [machine(State.STOPPED) for _ in range(1000)]
    for number, one in enumerate(many):
        one.id, one.commands = str(number), one.commands * 500
    told = blamed(make_record(), many, BEGAN).sandboxes
    assert [one.id for one in told] == [str(number) for number in (*range(50), *range(950, 1000))]
    assert sum(len(one.commands) for one in told) == 1000
    assert {one.commands_dropped for one in told} == {490}
