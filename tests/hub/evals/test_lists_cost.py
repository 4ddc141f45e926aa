"""What lists read: the rows of a page, not all of an owner's, of a reward, nor what others keep to themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from hub.accounts.models import Owner, OwnerKind
from hub.evals.models import Evaluation, RolloutIndex, Segment
from hub.evals.paging import Sort, _parts, cursor_of
from hub.evals.queries import list_evaluations, visible_evaluations
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted
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
