"""Rollouts by example, mixed results, and failures that failed alike."""

from __future__ import annotations

import pytest
from django.test import RequestFactory
from envhub.protocol.evals.rollouts import RolloutFailure
from envhub.protocol.runs import FailureKind
from pytest_django import DjangoAssertNumQueries

from hub.core.errors import Invalid
from hub.evals.clusters import failure_clusters
from hub.evals.models import Evaluation
from hub.evals.reading import example_groups
from hub.evals.reading.example_groups import GroupPage, group_page
from hub.evals.reward_shades import Shades
from tests.factories.evals import create_hosted, make_failure, make_records, start, store

pytestmark = pytest.mark.django_db


@pytest.fixture
def evaluation() -> Evaluation:
    made = create_hosted(num_examples=60, rollouts_per_example=2)
    start(made)
    store(made, make_records(*([1.0, 0.5] if n % 20 == 3 else [0.0, 0.0] for n in range(60))))
    store(made, [make_failure(0, 2)])
    return made


def page_of(evaluation: Evaluation, url: str = "/x", *, mixed: bool = False) -> GroupPage:
    return group_page(evaluation, RequestFactory().get(url), mixed=mixed, shades=Shades(0.0, 1.0))


def test_every_example_comes_once_over_the_pages(evaluation: Evaluation) -> None:
    examples, address = [], "/x?show=examples"
    while address:
        page = page_of(evaluation, address)
        examples += [group.example for group in page.groups]
        address = page.next or ""
    assert examples == list(range(60))


def test_a_reward_has_its_shade_and_its_number_and_a_failure_has_neither(evaluation: Evaluation) -> None:
    groups = page_of(evaluation).groups
    assert [(one.shade, one.words) for one in groups[3].squares] == [
        (4, "rollout 0: reward 1"),
        (2, "rollout 1: reward 0.5"),
    ]
    assert (groups[3].mean, groups[3].asked) == (0.75, "question 3")
    assert [(one.shade, one.words) for one in groups[0].squares][2] == (None, "rollout 2: infrastructure, no reward")


def test_mixed_examples_are_found_in_windows(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [group.example for group in page_of(evaluation, mixed=True).groups] == [3, 23, 43]
    monkeypatch.setattr(example_groups, "MOST_SCANNED", 50)
    first = page_of(evaluation, mixed=True)
    assert ([group.example for group in first.groups], first.searched) == ([3, 23], 24)
    assert first.next is not None
    assert [group.example for group in page_of(evaluation, first.next, mixed=True).groups] == [43]


def test_a_full_page_of_mixed_examples_goes_on_after_its_last(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example_groups, "GROUPS", 2)
    first = page_of(evaluation, mixed=True)
    assert [group.example for group in first.groups] == [3, 23]
    assert [group.example for group in page_of(evaluation, first.next or "", mixed=True).groups] == [43]


@pytest.mark.parametrize("mixed", [False, True])
def test_a_page_is_a_few_queries(
    evaluation: Evaluation, mixed: bool, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(4):
        page_of(evaluation, mixed=mixed)


def test_an_example_of_many_rollouts_shows_some(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_groups, "MOST_SQUARES", 1)
    group = page_of(evaluation).groups[3]
    assert (len(group.squares), group.more, group.mean) == (1, 1, 0.75)


def test_a_cursor_that_is_none_is_refused(evaluation: Evaluation) -> None:
    with pytest.raises(Invalid):
        page_of(evaluation, "/x?cursor=up")


def test_failures_that_differ_in_numbers_alone_are_one(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = ["no answer within 60 s", "no answer within 61.5 s", "lost"]
    failures = [RolloutFailure(kind=FailureKind.INFRASTRUCTURE, type="T", message=text) for text in messages]
    store(evaluation, [make_failure(example, 3, failure=one) for example, one in enumerate(failures)])
    kinds = ["infrastructure", "ok", "no kind"]
    found = failure_clusters.failure_clusters(evaluation, kinds)
    newest = found.rows[0]
    assert (newest.count, newest.example, newest.rollout, found.partial) == (2, 1, 3, False)
    assert sum(one.count for one in found.rows) == 4
    monkeypatch.setattr(failure_clusters, "MOST_READ", 1)
    assert failure_clusters.failure_clusters(evaluation, kinds).partial
