"""What lists of evaluations read: the rows of a page, not all of an owner's, nor what others keep to themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from django.db import connection
from django.db.models import QuerySet

from hub.accounts.models import Owner, OwnerKind
from hub.evals.models import Evaluation
from hub.evals.queries import list_evaluations, visible_evaluations
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted

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


def rows_read(page: QuerySet[Evaluation]) -> int:
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
