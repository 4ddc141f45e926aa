"""Training runs that are submitted at the same moment, as a sweep does (Postgres: SQLite lets one write at a time)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections

from hub.training.models import TrainingRun
from hub.training.services import create_training
from tests.backends import BACKEND
from tests.factories.accounts import make_user
from tests.factories.registry import create_ready_version
from tests.factories.training_runs import create_trainable, training_request

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(BACKEND != "services", reason="SQLite in memory has one connection"),
]
RUNS = 4


def test_runs_of_one_configuration_get_names_of_their_own() -> None:
    alice = make_user("alice")
    create_ready_version(alice)
    create_trainable(alice.owner)
    barrier = Barrier(RUNS)

    def submit(_: int) -> str:
        try:
            barrier.wait(timeout=20)
            return create_training(user=alice, owner=alice.owner, request=training_request()).adapter_name
        finally:
            connections.close_all()

    with ThreadPoolExecutor(RUNS) as pool:
        names = set(pool.map(submit, range(RUNS)))
    assert names == set(TrainingRun.objects.values_list("adapter_name", flat=True))
    assert len(names) == RUNS
