"""What the page of workers costs, which asks every ten seconds."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from envhub.protocol.runs import RunKind, RunState

from hub.runs.models import Run
from hub.runs.queries import all_workers
from tests.factories.runs import hold_run, make_run, make_worker

pytestmark = pytest.mark.django_db


def test_workers_are_counted_over_the_runs_that_they_hold_not_over_all_they_ever_had() -> None:
    worker, first = make_worker(), make_run()
    ended = {"kind": RunKind.EVAL.value, "state": RunState.SUCCEEDED.value, "queue": "eval", "worker": worker}
    fields = ended | {"owner": first.owner, "created_by": first.created_by}
    Run.objects.bulk_create(Run(**fields) for _ in range(1000))
    for _ in range(2):
        hold_run(make_run(owner=first.owner), worker=worker)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    workers = all_workers().order_by("-pk")
    assert [row.running for row in workers] == [2]  # type: ignore[attr-defined]
    if connection.vendor == "postgresql":
        read = re.findall(r"(?:actual time=\S+ rows=|Removed by Filter: )(\d+)", workers.explain(analyze=True))
        assert max(map(int, read)) <= 2
    else:
        assert "(worker_id=? AND state=?)" in workers.explain()
