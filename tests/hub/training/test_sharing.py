"""Who may see a training run can be changed afterwards; what it has put into the catalog follows."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from envhub.protocol.training.runs import TrainingRequest

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.core.errors import NotFound
from hub.runs.models import Run
from hub.training.models import TrainingRun
from hub.training.payload import train_payload
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.training_runs import adapter_report, checkpoint_report, create_run, report, start

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def trained(alice: User) -> TrainingRun:
    """A private run with one adapter."""
    training = create_run(alice)
    start(training)
    report(training, adapter_report())
    return training


def call(method: str, user: User, path: str, **body: str) -> Any:
    headers = bearer(make_token(user))
    return getattr(Client(), method)(f"/api/v1/{path}", body, content_type="application/json", headers=headers)


def test_it_is_shared_with_its_adapters_and_hidden_with_them(alice: User, trained: TrainingRun) -> None:
    bob, adapter = make_user("bob"), Model.objects.get(adapter__training=trained)
    paths = (f"training/{trained.pk}", f"models/alice/{adapter.name}")
    for visibility, status in (("public", 200), ("private", 404)):
        assert call("patch", alice, paths[0], visibility=visibility).json()["visibility"] == visibility
        assert [call("get", bob, path).status_code for path in paths] == [status, status]


def test_people_outside_see_no_hosts_and_a_toml_only_without_them(alice: User) -> None:
    host, plain, with_host = "db.corp.example:5432", create_run(alice), create_run(alice)
    TrainingRun.objects.filter(pk=with_host.pk).update(
        config=with_host.config | {"allow_hosts": [host]}, toml=f'allow_hosts = ["{host}"]'
    )
    TrainingRun.objects.update(visibility="public")
    bob = make_user("bob")
    shown = [call("get", bob, f"training/{run.pk}").json() for run in (plain, with_host)]
    assert (shown[0]["toml"], shown[1]["toml"]) == (plain.toml, "")
    assert "allow_hosts" not in shown[1]["config"]
    assert call("get", alice, f"training/{with_host.pk}").json()["config"]["allow_hosts"] == [host]
    listed = [call("get", user, "training").json()["items"][0]["config"].get("allow_hosts") for user in (alice, bob)]
    assert listed == [[host], None]
    client = Client()
    client.force_login(make_user("carol"))
    for page in (f"/training/{with_host.pk}/configuration", f"/training/new?from={with_host.pk}"):
        assert host not in client.get(page).text


@pytest.mark.parametrize(
    ("state", "again", "status"), [("running", False, 409), ("running", True, 204), ("queued", False, 204)]
)
def test_a_strangers_run_keeps_a_checkpoint_only_until_it_has_its_own(
    alice: User, trained: TrainingRun, state: str, again: bool, status: int
) -> None:
    checkpoint = report(trained, checkpoint_report(1))
    TrainingRun.objects.filter(pk=trained.pk).update(state="succeeded")
    other = create_run(make_user("mallory"))
    TrainingRun.objects.filter(pk=other.pk).update(warm_start=checkpoint, state=state)
    if again:
        start(other)
        report(other, checkpoint_report(1))
    assert call("delete", alice, f"training/{trained.pk}").status_code == status
    if status == 204:
        other.refresh_from_db()
        assert other.warm_start is None


def test_a_run_whose_checkpoint_is_gone_is_not_begun_without_it(alice: User, trained: TrainingRun) -> None:
    head = f'checkpoint_id = "{report(trained, checkpoint_report(1)).pk}"\nmodel = "base"\n'
    again = create_run(alice, TrainingRequest(toml=f'{head}[[env]]\nid = "tiny-env"\n'))
    again.warm_start = None
    again.save()
    with pytest.raises(NotFound, match="has been deleted by its owner"):
        train_payload(Run.objects.get(pk=again.run_id))


def test_an_adapter_that_comes_later_is_seen_like_the_run(alice: User, trained: TrainingRun) -> None:
    call("patch", alice, f"training/{trained.pk}", visibility="public")
    report(trained, adapter_report(step=6))
    assert set(Model.objects.filter(adapter__training=trained).values_list("visibility", flat=True)) == {"public"}


def test_who_only_sees_it_cannot_hide_it(alice: User, trained: TrainingRun) -> None:
    call("patch", alice, f"training/{trained.pk}", visibility="public")
    assert call("patch", make_user("bob"), f"training/{trained.pk}", visibility="private").status_code == 403


def test_the_page_has_the_same_control(alice: User, trained: TrainingRun) -> None:
    client = Client()
    client.force_login(alice)
    page = f"/training/{trained.pk}"
    assert "Make public" in client.get(page).content.decode()
    html = client.post(f"{page}/share", {"visibility": "public"}, follow=True).content.decode()
    assert "This run and its adapters are now public." in html
    assert "Make private" in html
