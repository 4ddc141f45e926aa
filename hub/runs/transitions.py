"""The only place where runs change state: a table of allowed transitions, compare-and-set on (state, attempt)."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone
from envhub.protocol.runs import RunState

from hub.core.errors import Conflict
from hub.runs.endings import tell_end
from hub.runs.kinds import spec_of
from hub.runs.models import Run, RunSandboxes
from hub.runs.usage import note_time

ALLOWED: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.LEASED, RunState.FAILED, RunState.CANCELLED}),
    RunState.LEASED: frozenset({RunState.RUNNING, RunState.QUEUED, RunState.FAILED, RunState.CANCELLED}),
    RunState.RUNNING: frozenset({RunState.SUCCEEDED, RunState.QUEUED, RunState.FAILED, RunState.CANCELLED}),
    RunState.SUCCEEDED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}
HELD = (RunState.LEASED, RunState.RUNNING)
FINAL = tuple(state for state in RunState if state.is_final)
OPEN = tuple(state for state in RunState if not state.is_final)


def move(run: Run, to: RunState, **fields: Any) -> Run:
    """Move `run`, as its caller has seen it, to `to` and set `fields`; its kind's on_transition shares the transaction.

    Raises Conflict: `bad_transition` if the table forbids it, `run_moved` if another process was faster.
    """
    old = RunState(run.state)
    if to not in ALLOWED[old]:
        raise Conflict(f"a run that is {old.value} cannot become {to.value}", code="bad_transition")
    with transaction.atomic():
        seen = Run.objects.filter(pk=run.pk, state=old.value, attempt=run.attempt)
        if seen.update(state=to.value, **fields) != 1:
            raise Conflict("the run has changed state meanwhile", code="run_moved")
        if to not in HELD:
            RunSandboxes.objects.filter(run=run).delete()
        moved = Run.objects.select_related("owner", "created_by", "worker").get(pk=run.pk)
        spec_of(moved.kind).on_transition(moved, old, to)
        if to.is_final:
            tell_end(moved)
        if to not in HELD:
            note_time(run=run, moved=moved, until=timezone.now())
    return moved
