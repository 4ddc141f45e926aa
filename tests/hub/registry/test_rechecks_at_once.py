"""Things that come at once, and while a run ends (Postgres: SQLite lets one write at a time)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runs import RunState

from hub.registry.models import Version
from hub.registry.services import recheck_waiting
from hub.runs.models import Run
from tests.backends import BACKEND
from tests.factories.registry import create_needing_version
from tests.hub.registry.test_rechecks import CAME, end, hold

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(BACKEND != "services", reason="SQLite in memory has one connection"),
]


@pytest.fixture
def waiting() -> Version:
    version = create_needing_version(Need(kind=NeedKind.DATA_SET, name="openai/gsm8k"))
    Run.objects.update(state=RunState.SUCCEEDED.value)
    return version


def at_once(*calls: Callable[[], object]) -> None:
    def run(call: Callable[[], object]) -> None:
        try:
            call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(run, calls))


def test_one_check_waits_however_many_things_come_at_once(waiting: Version) -> None:
    at_once(*[lambda: recheck_waiting(CAME)] * 6)
    assert Run.objects.filter(state=RunState.QUEUED.value).count() == 1


def test_what_comes_while_the_checks_end_is_not_lost(waiting: Version) -> None:
    for _ in range(5):
        recheck_waiting(CAME)
        run, _ = hold(waiting)
        at_once(lambda run=run: end(run), lambda: recheck_waiting(CAME))  # type: ignore[misc]
        assert Run.objects.filter(state=RunState.QUEUED.value).count() == 1
