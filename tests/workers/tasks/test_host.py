"""What the host process tells the hub."""

from __future__ import annotations

import io
from pathlib import Path

from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.tasks.host import MOST_REFUSED, Host, Told


async def test_runs_beyond_those_that_one_beat_can_refuse_are_refused_with_the_next(tmp_path: Path) -> None:
    settings = WorkerEnvironment(data=tmp_path, token="hubw_good")
    async with HubClient("http://127.0.0.1:9", "hubw_good", patience_s=1) as hub:
        host = Host(settings, hub, Told(slots={"eval": 1}), io.StringIO())
        refused = {str(number) for number in range(MOST_REFUSED + 5)}
        host._places.refused = set(refused)
        first, second, third = (host._beat().refused for _ in range(3))
    assert (len(first), len(second), third) == (MOST_REFUSED, 5, ())
    assert {*first, *second} == refused
