"""The sandboxes inside a run that a worker has: recording the worker's reports, showing them, and ending one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from envhub.protocol.sandboxes.live import TELL_S, LiveReply, LiveReport, LiveSandbox, LiveSandboxes

from hub.accounts.models import Owner, User
from hub.accounts.queries import Caller, require_role
from hub.core import clock
from hub.core.errors import NotFound
from hub.core.ids import SHORTEST, AmbiguousId, GivenId
from hub.runs.errors import StaleAttempt
from hub.runs.models import Run, RunSandboxes
from hub.runs.queries import get_run
from hub.runs.transitions import HELD

MOST_RUNS = 100
STALE = timedelta(seconds=20 * TELL_S)  # reports of a worker that has been silent for this long are ignored


@transaction.atomic
def note_sandboxes(*, run: Run, report: LiveReport, now: datetime) -> LiveReply:
    """Store the report of a run's worker, and return the sandboxes that it should end. Raises StaleAttempt."""
    held = Run.objects.select_for_update().filter(pk=run.pk, attempt=run.attempt, state__in=HELD)
    if held.first() is None:  # otherwise a late report would outlive the run
        raise StaleAttempt
    row = RunSandboxes.objects.select_for_update().filter(run=run).first()
    if not report.living:
        if row is not None:
            row.delete()
        return LiveReply()
    ending = row.ending if row is not None else {}
    if report.living == len(report.items):  # else an unlisted one may be among them
        living = {item.id for item in report.items}
        ending = {name: who for name, who in ending.items() if name in living}
    fields = {"living": report.living, "items": [item.model_dump(mode="json") for item in report.items]}
    RunSandboxes.objects.update_or_create(run=run, defaults={**fields, "ending": ending, "told_at": now})
    return LiveReply(end=ending)


def sandboxes_inside(user: Caller, run_id: GivenId) -> tuple[Run, LiveSandboxes]:
    """Return a run with the sandboxes inside it and its parts. Raises NotFound."""
    run = get_run(user, run_id)
    rows = list(_told(run.pk).order_by("run"))
    return run, LiveSandboxes(
        living=sum(row.living for row in rows),
        items=tuple(LiveSandbox.model_validate(item) for row in rows for item in row.items),
        ending=tuple(name for row in rows for name in row.ending),
        told_at=max((row.told_at for row in rows), default=None),
    )


def count_inside(run_id: UUID | None) -> int:
    """Return how many sandboxes exist in a run and its parts now."""
    return 0 if run_id is None else sum(_told(run_id).values_list("living", flat=True))


def _told(run_id: UUID) -> QuerySet[RunSandboxes]:
    """Return the recent reports of the workers of a run and its parts."""
    runs = Run.objects.filter(Q(pk=run_id) | Q(parent=run_id, state__in=HELD)).values("pk")
    return RunSandboxes.objects.filter(run__in=runs, told_at__gt=clock.now() - STALE)


@transaction.atomic
def end_sandbox(*, user: User, run_id: GivenId, sandbox_id: str) -> None:
    """Have the worker end a sandbox at its next report; its rollout loses it. Raises NotFound, NotAllowed."""
    run = get_run(user, run_id)
    require_role(user, run.owner)
    rows = {item["id"]: row for row in _told(run.pk).select_for_update(of=("self",)) for item in row.items}
    images = {item["id"]: item["image"] for row in rows.values() for item in row.items}
    if not (found := _beginning_with(images, sandbox_id)):
        raise NotFound("this run does not have this sandbox now", hint="it may have already ended")
    rows[found].ending[found] = user.username
    rows[found].save(update_fields=["ending"])


def _beginning_with(images: Mapping[str, str], given: str) -> str:
    """Return the sandbox with this id, or the only one whose id begins with it; "" if none. Raises AmbiguousId."""
    if given in images:
        return given
    found = {one: image for one, image in images.items() if len(given) >= SHORTEST and one.startswith(given.lower())}
    if len(found) > 1:
        raise AmbiguousId(given, found, more=False)
    return next(iter(found), "")


def runs_with_sandboxes(
    *, owners: QuerySet[Owner] | None = None, owner: str = "", worker: str = ""
) -> list[RunSandboxes]:
    """Return the runs with the most sandboxes inside, with their owners and workers.

    owners: only runs of these; owner, worker: only runs of the owner or on the worker of this name.
    """
    rows = RunSandboxes.objects.filter(living__gt=0, run__state__in=HELD).select_related("run__owner", "run__worker")
    if owners is not None:
        rows = rows.filter(run__owner__in=owners.order_by().values("pk"))
    if owner:
        rows = rows.filter(run__owner__slug=owner)
    if worker:
        rows = rows.filter(run__worker__name=worker)
    return list(rows.defer("items", "ending").order_by("-living", "pk")[:MOST_RUNS])
