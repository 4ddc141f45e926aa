"""How the build of a version stands, for the pages that show a version which is not built yet."""

from __future__ import annotations

from typing import Any

from envhub.protocol.registry.packages import VersionState

from hub.core import clock
from hub.registry.models import Version
from hub.runs.models import Run
from hub.runs.placing.waiting import waiting_reasons


def building_context(version: Version | None) -> dict[str, Any]:
    """Return the context of `registry/_building.html`: what a queued build waits for, how far a
    running one is, and when a failed one is retried.

    One query if the version is being built, and some more while its run is queued.
    """
    building = version is not None and version.state == VersionState.BUILDING.value
    run = _run(version) if version is not None and building else None
    now = clock.now()
    late = run is not None and run.not_before is not None and run.not_before > now
    return {
        "building": building,
        "building_for": waiting_reasons([run], now=now).get(run.pk) if run is not None and not late else None,
        "progress": run.progress if run is not None else None,
        "retry_at": run.not_before if run is not None and late else None,
    }


def _run(version: Version) -> Run | None:
    if version.build_run_id is None:
        return None
    return Run.objects.select_related("owner").filter(pk=version.build_run_id).first()
