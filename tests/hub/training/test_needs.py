"""A training run on a version that lacks something is refused before it occupies a worker, unless it brings that."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.registry.needs import Need, NeedKind

from hub.accounts.models import User
from hub.core.errors import Conflict
from hub.registry.models import Version
from hub.registry.services.reports import index_needs
from hub.secrets.services import set_secret
from hub.training.models import TrainingRun
from hub.training.services import create_training, resume_training
from tests.factories.accounts import make_user
from tests.factories.registry import create_needing_version
from tests.factories.training_runs import create_trainable, training_request
from tests.hub.training.test_creating import payload_of, submit

pytestmark = pytest.mark.django_db
KEY, PATH = Need(kind=NeedKind.SECRET, name="API_KEY"), Need(kind=NeedKind.ARGUMENT, name="path")


@pytest.fixture
def alice() -> User:
    user = make_user("alice")
    create_needing_version(KEY, PATH, user=user)
    create_trainable(user.owner)
    set_secret(owner=user.owner, name="API_KEY", value="hunter22", user=user)
    return user


def test_every_need_is_named_with_its_place_in_the_toml(alice: User) -> None:
    with pytest.raises(Conflict) as caught:
        submit(alice)
    error = caught.value
    assert (error.code, error.message) == ("needs_unmet", "alice/tiny-env@0.1.0 needs secret API_KEY, argument path")
    assert error.fields == {"env[0].secrets": "needs secret API_KEY", "env[0].args": "needs argument path"}
    assert '`env[0].secrets = ["API_KEY"]`' in error.hint
    assert '`env[0].args = { "path" = ... }`' in error.hint


def test_the_form_says_the_same(alice: User) -> None:
    client = Client()
    client.force_login(alice)
    answer = client.post("/training/new", {"toml": training_request().toml, "owner": "alice"})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "needs secret API_KEY, argument path" in page
    assert "<code>env[0].secrets = [&quot;API_KEY&quot;]</code>" in page


def test_what_the_table_and_the_run_bring_is_not_lacking(alice: User) -> None:
    request = training_request('args = { path = "x" }', env={"API_KEY": "sent"})
    assert create_training(user=alice, owner=alice.owner, request=request).state == "queued"


@pytest.mark.parametrize(
    ("chosen", "checked", "tries"), [("pi", None, True), ("pi", "pi", False), ("", "pi", False), ("", None, False)]
)
def test_a_harness_that_no_check_had_is_tried_by_the_worker(
    alice: User, chosen: str, checked: str | None, tries: bool
) -> None:
    settings = {"harness": {"id": checked}} if checked else None
    Version.objects.update(checks=[], check_settings=settings)
    table = f"harness = {{ id = '{chosen}' }}" if chosen else ""
    evaluated = f"[[eval.env]]\nid = 'alice/tiny-env'\nname = 'held'\n{table}"
    payload = payload_of(submit(alice, f"{table}\n{evaluated}"))
    assert [target.tries_harness for target in (*payload.environments, *payload.evaluations)] == [tries, tries]


def test_going_on_is_refused_as_starting_is(alice: User) -> None:
    Version.objects.update(checks=[])
    training = submit(alice)
    TrainingRun.objects.update(state="failed")
    version = Version.objects.get()
    check = {"name": "load", "passed": False, "summary": "no", "needs": [KEY.model_dump(mode="json")]}
    Version.objects.update(checks=[check])
    index_needs(version, [KEY])
    with pytest.raises(Conflict, match="needs secret API_KEY"):
        resume_training(user=alice, training=training)
