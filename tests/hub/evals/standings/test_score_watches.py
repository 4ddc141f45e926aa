"""Users are told of scores beyond what they have named, on evaluations that they may see."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest
from django.test import Client, TestCase
from django.utils import timezone
from envhub.protocol.accounts.notices import ScoreWatchRequest
from envhub.protocol.runs import RunState
from pydantic import ValidationError

from hub.accounts.models import Role, User
from hub.evals.models import Evaluation, ScoreWatch
from hub.evals.services import finalize_push, watch_scores
from hub.evals.services.segments import add_segment
from hub.notices.models import Notice
from hub.runs.models import Run
from hub.runs.services import end_attempt
from tests.factories.accounts import bearer, make_owner, make_token, make_user
from tests.factories.evals import create_hosted, create_pushed, make_records, make_segment, start, store
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def committed() -> AbstractContextManager[object]:
    """At its end happens what waits for a commit."""
    return TestCase.captureOnCommitCallbacks(execute=True)


def ended(user: User, reward: float, **config: object) -> Evaluation:
    """An evaluation with that mean reward."""
    found = create_hosted(user, **config)
    start(found)
    store(found, make_records((reward,)))
    with committed():
        end_attempt(run=Run.objects.get(pk=found.run_id), to=RunState.SUCCEEDED, now=timezone.now())
    return found


def watch(user: User, version_of: User, **numbers: object) -> ScoreWatch:
    request = ScoreWatchRequest.model_validate(numbers)
    return watch_scores(user=user, environment=version_of.owner.environments.get(), request=request)


def told(user: User) -> list[str]:
    rows = Notice.objects.filter(user=user, kind="score").order_by("pk")
    return [f"{row.text}: {row.detail}" for row in rows]


def test_a_score_beyond_the_number_is_told_and_no_other(ada: User) -> None:
    create_ready_version(ada)
    watch(ada, ada, below=0.5, above=0.9)
    for reward in (0.7, 0.25, 1.0):
        ended(ada, reward)
    low, high = told(ada)
    assert low.startswith("ada/stub has 0.250 on ada/tiny-env: The mean reward is below 0.5")
    assert "above 0.9" in high
    assert Notice.objects.filter(kind="score").latest("pk").url.startswith("/evaluations/")


def test_a_watch_of_a_model_is_not_about_others_and_a_second_one_replaces_it(ada: User) -> None:
    create_ready_version(ada)
    watch(ada, ada, model="ada/another", above=0)
    ended(ada, 1.0)
    assert told(ada) == []
    watch(ada, ada, model="ada/stub", above=2)
    watch(ada, ada, model="ada/stub", above=0)
    ended(ada, 1.0)
    assert len(told(ada)) == 1
    assert ScoreWatch.objects.count() == 2


def test_only_who_may_see_the_evaluation_is_told(ada: User) -> None:
    create_ready_version(ada)
    bob = make_user("bob")
    watch(bob, ada, above=0)
    ended(ada, 1.0, visibility="private")
    assert told(bob) == []
    ended(ada, 1.0, visibility="public")
    assert len(told(bob)) == 1


def test_results_that_are_pushed_are_told_of_too(ada: User) -> None:
    create_ready_version(ada)
    watch(ada, ada, below=0.5)
    pushed = create_pushed(ada, "ada/tiny-env")
    add_segment(evaluation=pushed, request=make_segment(make_records((0.0,))), trusted=False)
    with committed():
        finalize_push(user=ada, evaluation=pushed)
        finalize_push(user=ada, evaluation=pushed)
    assert len(told(ada)) == 1


def test_the_page_and_the_api_set_and_remove_the_same_watches(ada: User) -> None:
    create_ready_version(ada)
    client = Client()
    client.force_login(ada)
    page = "/environments/ada/tiny-env/watches"
    assert "give below or above" in client.post(page, {"model": ""}, follow=True).content.decode()
    assert "any model" in client.post(page, {"model": " ", "below": "0.5"}, follow=True).content.decode()
    headers = bearer(make_token(ada))
    (one,) = client.get(f"/api/v1{page}", headers=headers).json()["items"]
    assert (one["model"], one["below"], one["above"]) == ("", 0.5, None)
    assert client.delete(f"/api/v1{page}/{one['id']}", headers=headers).status_code == 204
    assert not ScoreWatch.objects.exists()


def test_a_watch_names_a_number() -> None:
    with pytest.raises(ValidationError, match="below or above"):
        ScoreWatchRequest(model="a/b")


def test_a_member_who_left_is_told_no_longer(ada: User) -> None:
    team, bob = make_owner("team", members=[ada]), make_user("bob")
    membership = team.memberships.create(user=bob, role=Role.MEMBER)
    create_ready_version(ada)
    watch(bob, ada, above=0)
    evaluation = create_hosted(ada, visibility="private")
    Evaluation.objects.filter(pk=evaluation.pk).update(owner=team)
    membership.delete()
    start(evaluation)
    store(evaluation, make_records((1.0,)))
    with committed():
        end_attempt(run=Run.objects.get(pk=evaluation.run_id), to=RunState.SUCCEEDED, now=timezone.now())
    assert told(bob) == []
