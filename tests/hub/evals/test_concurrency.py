"""The same rollouts reported by several workers at once are stored once (Postgres: SQLite lets one write at a time)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.visibility import Visibility

from hub.core.errors import Conflict
from hub.evals.models import Contender, Evaluation, RolloutIndex
from hub.evals.services import delete_evaluation, resume_evaluation, share_evaluation
from hub.evals.wire import evaluation_summary
from hub.registry.models import EvaluationCount
from hub.runs.models import Run
from tests.backends import BACKEND
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_failure, make_record, make_records, store, succeed

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(BACKEND != "services", reason="SQLite in memory has one connection"),
]


def _in_thread(evaluation: Evaluation, records: list[RolloutRecord]) -> int:
    try:
        return store(evaluation, records)
    finally:
        connections.close_all()


def test_concurrent_duplicates_are_harmless() -> None:
    evaluation = create_hosted()
    records = make_records([1, 0, 1], [0, 0, 1])
    with ThreadPoolExecutor(6) as pool:
        stored = list(pool.map(lambda _: _in_thread(evaluation, records), range(6)))
    evaluation.refresh_from_db()
    assert sorted(stored) == [0, 0, 0, 0, 0, 6]
    assert (RolloutIndex.objects.count(), evaluation_summary(evaluation).stored) == (6, 6)


def test_segments_that_share_examples_lose_no_update() -> None:
    evaluation = create_hosted()
    store(evaluation, [make_failure(g, 0) for g in range(4)])
    parts = [[make_record(g, i, float(i % 2)) for g in range(4)] for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda part: _in_thread(evaluation, part), parts)) == 32
    evaluation.refresh_from_db()
    summary = evaluation_summary(evaluation)
    assert summary.reward is not None
    assert (summary.reward.mean, summary.reward.count, summary.outcomes) == (0.5, 32, {"ok": 32})


def test_resuming_twice_at_once_makes_one_run() -> None:
    evaluation = create_hosted()
    Evaluation.objects.update(state="failed")

    def resume(_: int) -> str:
        try:
            resume_evaluation(user=evaluation.created_by, evaluation=evaluation)
        except Conflict as error:
            return error.code
        finally:
            connections.close_all()
        return "resumed"

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(resume, range(3))) == ["resumed", "still_running", "still_running"]
    assert Run.objects.filter(kind="eval").count() == 2


def test_evaluations_of_one_model_that_move_at_once_are_each_counted_where_they_are() -> None:
    ada = make_user("ada")
    made = [create_hosted(ada) for _ in range(8)]
    for one in made:
        store(one, make_records((1.0, 0.0)))

    def move(place: int) -> None:
        """Each ends; odd ones are shown to everybody, of which every second is hidden again; the last are deleted."""
        one = made[place]
        try:
            succeed(one)
            for visibility in (Visibility.PUBLIC, Visibility.PRIVATE)[: place % 2 + place % 4 // 3]:
                share_evaluation(user=ada, evaluation=one, visibility=visibility)
            if place >= 6:
                delete_evaluation(user=ada, evaluation=one)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(move, range(8)))
    for visibility, places in {"private": [0, 2, 3, 4], "public": [1, 5]}.items():
        found = Contender.objects.get(visibility=visibility)
        assert (found.evaluations, found.newest) == (len(places), made[places[-1]].pk)
        assert EvaluationCount.objects.get(visibility=visibility).evaluations == len(places)
