from __future__ import annotations

import hashlib

import pytest
from django.test import Client
from envhub.protocol.evals.fingerprints import canonical

from hub.accounts.models import User
from hub.evals.reports.fingerprints import evaluation_fingerprint
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, create_pushed

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def test_what_decides_the_result_changes_the_fingerprint_and_nothing_else_does(alice: User) -> None:
    first = evaluation_fingerprint(create_hosted(alice, sampling={"temperature": 0.5}, seed=1)).sha256
    again = create_hosted(
        alice, sampling={"temperature": 0.5}, seed=1, name="tiny-env", concurrency=3, visibility="public"
    )
    assert evaluation_fingerprint(again).sha256 == first
    others = ({"seed": 2}, {"sampling": {"temperature": 0.6}}, {"num_examples": 3}, {"env_args": {"x": 1}})
    changed = [create_hosted(alice, **({"sampling": {"temperature": 0.5}, "seed": 1} | one)) for one in others]
    assert len({first, *(evaluation_fingerprint(one).sha256 for one in changed)}) == len(others) + 1


def test_the_answer_has_what_is_hashed(alice: User) -> None:
    evaluation = create_hosted(alice, env_args={"name": "Zoë", "rate": 1e-05})
    answer = Client().get(f"/api/v1/evaluations/{evaluation.pk}/fingerprint", headers=bearer(make_token(alice))).json()
    assert answer["sha256"] == hashlib.sha256(canonical(answer["settings"]).encode()).hexdigest()
    assert evaluation.version is not None
    assert answer["settings"]["package"]["wheel"] == evaluation.version.wheel_id


def test_a_pushed_evaluation_is_named_by_its_environment(alice: User) -> None:
    create_hosted(alice)
    settings = evaluation_fingerprint(create_pushed(alice, "alice/tiny-env")).settings
    assert settings["model"] == "gpt-x"
