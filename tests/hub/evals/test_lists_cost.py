"""What lists read: the rows of a page, not all of an owner's, of a reward, nor what others keep to themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from hub.accounts.models import Owner, OwnerKind
from hub.accounts.queries import Caller
from hub.evals.clusters.answer_clusters import wrong_answers
from hub.evals.models import Evaluation, RolloutIndex, Segment
from hub.evals.paging import Sort, _parts, cursor_of
from hub.evals.queries import list_evaluations, visible_evaluations
from hub.evals.standings.leaderboard import leaderboard
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, create_pushed, make_records, store, succeed
from tests.factories.storage import make_blob

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="of Postgres' planner"),
]


def copies(evaluation: Evaluation, owners: Iterable[Owner]) -> None:
    """One more for each of these owners, without a run."""
    fields = ("environment_id", "version_id", "model_name", "source", "state", "config", "created_by_id")
    same = {name: getattr(evaluation, name) for name in fields}
    Evaluation.objects.bulk_create(Evaluation(owner=owner, **same) for owner in owners)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def rows_read(page: QuerySet[Any]) -> int:
    """The most that any part of the plan touched."""
    plan = page.explain(analyze=True)
    return max(map(int, re.findall(r"(?:actual time=\S+ rows=|Removed by Filter: )(\d+)", plan)))


def blocks_read(look: Callable[[], object]) -> int:
    """By all the queries of it."""
    with CaptureQueriesContext(connection) as asked:
        look()
    blocks = 0
    with connection.cursor() as cursor:
        for query in asked:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query['sql']}")
            told = cursor.fetchone()[0]
            (found,) = json.loads(told) if isinstance(told, str) else told
            blocks += found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"]
    return blocks


@pytest.mark.django_db(transaction=True)  # rows of a transaction that is rolled back stay in the indexes of other tests
def test_a_leaderboard_reads_no_more_at_twenty_times_as_many_evaluations() -> None:
    ada, bob = make_user("ada"), make_user("bob")
    shown = create_hosted(ada)
    store(shown, make_records((1.0, 0.0)))
    succeed(shown)
    push = create_pushed(bob, "ada/tiny-env")
    store(push, make_records((1.0, 0.0)))
    succeed(push)
    environment, fill = shown.environment, import_module("hub.evals.migrations.0014_fill_contenders").fill
    viewers: dict[str, Caller] = {"ada": ada, "bob": bob, "anybody": AnonymousUser()}

    def costs() -> dict[str, int]:
        fill(apps, None)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        return {name: blocks_read(partial(leaderboard, viewer, environment)) for name, viewer in viewers.items()}

    def more(count: int) -> None:
        """Half of them public; two thirds ada's, the others private to somebody else."""
        other = make_user().owner.pk
        fields = ("environment_id", "version_id", "source", "state", "config", "planned", "aggregate", "board")
        same = {name: getattr(shown, name) for name in (*fields, "created_by_id")}
        Evaluation.objects.bulk_create(
            Evaluation(
                owner_id=other if n % 3 == 0 else ada.owner.pk,
                visibility="public" if n % 2 else "private",
                model_name=f"model-{n % 10}",
                **same,
            )
            for n in range(count)
        )

    more(100)
    few = costs()
    more(1900)
    many = costs()
    assert all(many[name] < few[name] * 1.5 + 40 for name in viewers), (few, many)


def test_a_page_of_one_owner_does_not_sort_all_of_the_owners_evaluations() -> None:
    user = make_user()
    others = Owner.objects.bulk_create(Owner(slug=f"other-{n}", kind=OwnerKind.TEAM) for n in range(500))
    copies(create_hosted(user), [user.owner] * 2000 + others)
    assert rows_read(list_evaluations(user, owner=user.owner.slug)[:11]) < 2000


def test_whoever_sees_few_evaluations_does_not_read_past_everybody_elses() -> None:
    mine = create_hosted()
    other = create_hosted()
    copies(other, [other.owner] * 2000)
    rows = visible_evaluations(mine.created_by)
    assert list(rows) == [mine]
    assert rows_read(rows.all()[:11]) <= 11


@pytest.mark.parametrize("sort", [Sort.REWARD, Sort.REWARD_DESC])
def test_a_page_among_many_rollouts_of_one_reward_does_not_read_them_all(sort: Sort) -> None:
    evaluation = create_hosted()
    segment = Segment.objects.create(evaluation=evaluation, blob=make_blob())
    same = {"evaluation": evaluation, "segment": segment, "rollout": 0, "row_group": 0, "row": 0}
    RolloutIndex.objects.bulk_create(RolloutIndex(example=n, reward=float(n % 2), **same) for n in range(4000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    rows = RolloutIndex.objects.filter(evaluation=evaluation)
    middle = rows.filter(reward=1.0).order_by("pk")[1000]
    alike, others, *_ = _parts(rows, sort, cursor_of(middle, sort))
    assert rows_read(alike[:51]) <= 51
    assert rows_read(others[:51]) <= 51


def test_grouping_wrong_answers_reads_no_more_of_many_rollouts_than_of_few() -> None:
    evaluation = create_hosted()
    segment = Segment.objects.create(evaluation=evaluation, blob=make_blob())
    same = {"evaluation": evaluation, "segment": segment, "rollout": 0, "row_group": 0, "row": 0, "answered": "42"}

    def cost(first: int, stop: int) -> int:
        RolloutIndex.objects.bulk_create(
            RolloutIndex(example=n, reward=float(n % 4 == 0), **same) for n in range(first, stop)
        )
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        return blocks_read(partial(wrong_answers, evaluation, 200))

    few = cost(0, 1000)
    assert cost(1000, 10_000) < 2 * few + 20
