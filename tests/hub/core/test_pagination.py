"""Keyset pages."""

from __future__ import annotations

import pytest
from django.test import RequestFactory
from pytest_django import DjangoAssertNumQueries

from hub.core.errors import Invalid
from hub.core.pagination import newest_first
from hub.runs.models import Run
from tests.factories.accounts import make_user
from tests.factories.runs import make_run

pytestmark = pytest.mark.django_db


def test_pages_join_to_the_whole_list_newest_first(rf: RequestFactory) -> None:
    owner = make_user().owner
    made = [make_run(owner=owner).pk for _ in range(5)]
    seen, url = [], "/runs?limit=2"
    while url:
        rows, following = newest_first(Run.objects.all(), rf.get(url))
        seen += [row.pk for row in rows]
        url = following or ""
    assert seen == made[::-1]


def test_a_page_is_one_query(rf: RequestFactory, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        newest_first(Run.objects.all(), rf.get("/runs"))


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "limit=²", "limit=" + 5000 * "9", "before=x"])
def test_a_wrong_parameter_is_named(rf: RequestFactory, query: str) -> None:
    with pytest.raises(Invalid) as caught:
        newest_first(Run.objects.all(), rf.get(f"/runs?{query}"))
    assert list(caught.value.fields) == [query.partition("=")[0]]
