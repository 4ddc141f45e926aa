"""Self-reported evaluations: pushed once, however often."""

from __future__ import annotations

import pytest
from envhub.protocol.evals.evaluations import EvaluationPush

from hub.accounts.models import User
from hub.core.errors import Conflict, Invalid, NotFound
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.services import add_segment, finalize_push, push_evaluation, resume_evaluation
from hub.registry.cards import evaluations_seen
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, create_pushed, make_config, make_records, make_segment
from tests.factories.registry import create_ready_version, push_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    user = make_user("alice")
    create_ready_version(user)
    return user


def _push(user: User, fingerprint: str = "a" * 64) -> Evaluation:
    evaluation = create_pushed(user, "alice/tiny-env", fingerprint=fingerprint)
    if not evaluation.is_final:
        add_segment(evaluation=evaluation, request=make_segment(make_records([1, 0])), trusted=False)
        finalize_push(user=user, evaluation=evaluation)
    return evaluation


def test_a_push_is_marked_as_self_reported_and_private(alice: User) -> None:
    evaluation = _push(alice)
    assert (evaluation.source, evaluation.state, evaluation.visibility) == ("pushed", "succeeded", "private")


def test_the_same_results_again_are_the_same_evaluation(alice: User) -> None:
    assert _push(alice) == _push(alice)
    assert (Evaluation.objects.count(), RolloutIndex.objects.count()) == (1, 2)
    evaluation = Evaluation.objects.get()
    assert evaluations_seen(alice, [evaluation.environment]) == {evaluation.environment_id: 1}


def test_an_interrupted_push_goes_on_where_it_was(alice: User) -> None:
    first = create_pushed(alice, "alice/tiny-env")
    add_segment(evaluation=first, request=make_segment(make_records([1])), trusted=False)
    again = create_pushed(alice, "alice/tiny-env")
    assert (again, again.state) == (first, "running")


def test_two_owners_may_push_the_same_results(alice: User) -> None:
    assert _push(alice) != _push(make_user("bob"))


def test_the_version_is_kept_when_it_is_named(alice: User) -> None:
    named = create_pushed(alice, "alice/tiny-env@0.1.0", fingerprint="b" * 64)
    assert named.version is not None
    assert create_pushed(alice, "alice/tiny-env").version is None


def test_an_environment_that_is_not_visible_is_not_found(alice: User) -> None:
    push_version(alice, "secret-env", private=True)
    bob = make_user("bob")
    request = EvaluationPush(
        environment="alice/secret-env",
        model="m",
        fingerprint="c" * 64,
        config=make_config("alice/secret-env", "m"),
        format="results.jsonl",
    )
    with pytest.raises(NotFound):
        push_evaluation(user=bob, owner=bob.owner, request=request)


def test_text_that_postgres_cannot_hold_is_cleaned(alice: User) -> None:
    assert create_pushed(alice, "alice/tiny-env", name="a\x00b").name == "ab"


def test_a_configuration_or_metadata_without_end_is_refused(alice: User) -> None:
    with pytest.raises(Invalid, match="configuration has"):
        create_pushed(alice, "alice/tiny-env", env_args={"data": "x" * 40_000}, sampling={"stop": "x" * 40_000})
    config = make_config("alice/tiny-env", "gpt-x")
    request = EvaluationPush(
        environment="alice/tiny-env",
        model="gpt-x",
        fingerprint="a" * 64,
        config=config,
        format="results.jsonl",
        metadata={"data": "x" * 65_536},
    )
    with pytest.raises(Invalid, match="metadata has"):
        push_evaluation(user=alice, owner=alice.owner, request=request)
    assert not Evaluation.objects.exists()


def test_a_hosted_evaluation_is_not_finalised_by_hand(alice: User) -> None:
    with pytest.raises(Conflict):
        finalize_push(user=alice, evaluation=create_hosted(alice))


def test_a_self_reported_evaluation_cannot_be_resumed(alice: User) -> None:
    with pytest.raises(Conflict) as caught:
        resume_evaluation(user=alice, evaluation=_push(alice))
    assert caught.value.code == "not_hosted"
