"""Adds to a rollout's record what it did in its sandboxes, and who is to blame if one of them ended early."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, SandboxCommand, SandboxUse
from envhub.protocol.runs import FailureKind

from workers.broker.interface import Command, State
from workers.broker.machine import Machine
from workers.rollouts.joining import failed, is_infrastructure

MOST_TOLD, MOST_COMMANDS = 100, 1000  # limits of a rollout's record: sandboxes, and commands of all of them
OWN_ENDS = (State.OUT_OF_MEMORY, State.TIMED_OUT)
LONG_WAIT_S = 10.0


def blamed(record: RolloutRecord, machines: Sequence[Machine], began: datetime, refused: str = "") -> RolloutRecord:
    """Add the sandboxes to the record and correct the failure's kind.

    A sandbox ended by the host is an infrastructure failure, whatever the environment made of it, and so is a rollout
    whose sandbox did not come in time. Conversely, the library blames all sandbox trouble on infrastructure, even if a
    limit or the rollout's own commands ended it, or if one was `refused` because of the rollout's own limits.
    """
    record = record.model_copy(update={"sandboxes": uses(machines, began)})
    for machine in machines:
        if machine.life.by_host:
            return failed(record, FailureKind.INFRASTRUCTURE, "SandboxLost", f"a sandbox was lost: {machine.reason}")
    for machine in awaited_in_vain(record, machines):
        why = f"a sandbox was not ready after {_age(machine):.0f} s: it waited for {machine.life.waits_for}"
        return _with_kind(record, FailureKind.INFRASTRUCTURE, why)
    if record.outcome is Outcome.FAILED and is_infrastructure(record) and not _has_unanswered_turn(record):
        for machine in machines:
            if machine.state in OWN_ENDS:
                return _with_kind(record, FailureKind.LIMIT, f"a sandbox has ended: {machine.reason}")
            if machine.life.lacking:
                return _with_kind(record, FailureKind.ENVIRONMENT, machine.reason)
            if machine.state is State.FAILED:
                return _with_kind(record, FailureKind.POLICY, f"a sandbox has ended: {machine.reason}")
        if refused:
            return _with_kind(record, FailureKind.LIMIT, refused)
        if machines:  # the sandboxes worked, so one of the environment's own commands failed
            return _with_kind(record, FailureKind.ENVIRONMENT, "")
    return record


def awaited_in_vain(record: RolloutRecord, machines: Sequence[Machine]) -> Sequence[Machine]:
    """Return the sandboxes that a failed rollout waited for until it or its client gave up, and not just briefly."""
    if record.failure is None or record.failure.kind not in (FailureKind.INFRASTRUCTURE, FailureKind.LIMIT):
        return ()
    never_ready = (one for one in machines if one.started is None and one.state in (State.PENDING, State.STOPPED))
    return [machine for machine in never_ready if _age(machine) > LONG_WAIT_S]


def _age(machine: Machine) -> float:
    return seconds(machine.created, machine.ended or datetime.now(UTC))


def _has_unanswered_turn(record: RolloutRecord) -> bool:
    return any(turn.status >= 500 for turn in record.turns)


def _with_kind(record: RolloutRecord, kind: FailureKind, why: str) -> RolloutRecord:
    if record.failure is None:
        return record
    message = f"{why}; {record.failure.message}"[:4000] if why else record.failure.message
    return record.model_copy(update={"failure": record.failure.model_copy(update={"kind": kind, "message": message})})


def uses(machines: Sequence[Machine], began: datetime) -> tuple[SandboxUse, ...]:
    """Describe the first and last sandboxes of a rollout that began at `began`, sharing the limit on commands."""
    told = ends_of(machines, MOST_TOLD)
    share = MOST_COMMANDS // max(1, len(told))
    return tuple(use(machine, began, share) for machine in told)


Item = TypeVar("Item")


def ends_of(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Return the first and last halves of `most` items."""
    return items if len(items) <= most else [*items[: most // 2], *items[len(items) - (most - most // 2) :]]


def use(machine: Machine, began: datetime, most: int = MOST_COMMANDS) -> SandboxUse:
    """Describe one sandbox with at most `most` commands."""
    commands = ends_of(machine.commands, most)
    image = machine.life.image
    end = machine.ended or datetime.now(UTC)
    return SandboxUse(
        id=machine.id,
        image=machine.wish.image[:500],
        digest=image.digest if image else "",
        served_as=image.served_as if image else "",
        state=machine.state.value,
        reason=machine.reason[:1000],
        cpus=machine.cpus,
        memory_mb=machine.memory_mb,
        created_s=seconds(began, machine.created),
        seconds=seconds(machine.created, end),
        commands=tuple(_command(command, began) for command in commands),
        commands_dropped=machine.commands_dropped + len(machine.commands) - len(commands),
    )


def _command(command: Command, began: datetime) -> SandboxCommand:
    return SandboxCommand(
        argv=command.argv,
        cwd=command.cwd,
        started_s=seconds(began, command.began),
        seconds=round(command.seconds, 3),
        exit_code=command.exit_code,
        output=command.output,
        truncated=command.truncated,
        timed_out=command.timed_out,
        unfinished=command.unfinished,
    )


def seconds(start: datetime, end: datetime) -> float:
    """Return the seconds between two times, to the millisecond."""
    return round((end - start).total_seconds(), 3)
