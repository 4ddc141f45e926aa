"""hub/tiny comes with a hub that can make it, once; pages name a model that is there."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from hub.accounts.models import User
from hub.accounts.services import create_user
from hub.catalog.making import making
from hub.catalog.models import Model
from hub.core.errors import Unavailable
from hub.web import tiny_model
from hub.web.management.commands.serve import Command
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A hub's data where the trainer's command has left its directory."""
    folder = tiny_model.directory(tmp_path)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def test_it_is_registered_once_for_everybody_to_train(made: Path) -> None:
    assert [tiny_model.ensure(made), tiny_model.ensure(made)] == [True, False]
    model = Model.objects.get(owner__slug="hub", name="tiny")
    assert (model.visibility, model.engine, model.trainable) == ("public", "torch", True)
    assert set(model.files.values_list("path", flat=True)) == {"config.json", "model.safetensors"}


def test_where_it_cannot_be_made_the_refusal_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_model, "NEEDED", ("no_such_torch",))
    with pytest.raises(Unavailable, match="torch is not installed"):
        tiny_model.ensure(tmp_path)


def test_a_second_start_begins_nothing_and_without_torch_it_is_said(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    def said(data: Path) -> str:
        settings.HUB = settings.HUB.model_copy(update={"data": data})
        Command(stdout=(out := StringIO())).begin_tiny_model()
        return out.getvalue()

    monkeypatch.setattr(tiny_model, "NEEDED", ("no_such_torch",))
    assert said(made) == ""
    assert "needs torch" in said(tmp_path / "other")


@pytest.mark.parametrize("path", ["/evaluations", "/runs", "/training"])
def test_an_example_names_no_model_that_is_not_there(mallory: Client, path: str) -> None:
    html = mallory.get(path).content.decode()
    assert ("OWNER/MODEL" in html, "hub/tiny" in html) == (True, False)


def test_the_start_page_has_an_example_once_there_is_something_to_evaluate(mallory: Client) -> None:
    assert "OWNER/MODEL" not in mallory.get("/").content.decode()
    create_ready_version(User.objects.get(username="mallory"))
    assert "-m OWNER/MODEL" in mallory.get("/").content.decode()


def test_an_example_names_hub_tiny_before_other_models(made: Path, mallory: Client) -> None:
    create_endpoint(create_user(username="bob"), "gpt", public=True)
    assert "-m bob/gpt" in mallory.get("/evaluations").content.decode()
    tiny_model.ensure(made)
    assert "-m hub/tiny" in mallory.get("/evaluations").content.decode()


def test_training_examples_name_what_can_be_trained(made: Path, mallory: Client) -> None:
    create_endpoint(create_user(username="bob"), "gpt", public=True)
    assert "--model OWNER/MODEL" in mallory.get("/training").content.decode()
    tiny_model.ensure(made)
    assert "model = &quot;hub/tiny&quot;" in mallory.get("/training/new").content.decode()


def test_who_names_it_while_it_is_being_made_is_told_so(tmp_path: Path, settings: Settings) -> None:
    settings.HUB = settings.HUB.model_copy(update={"data": tmp_path})
    headers = bearer(make_token(make_user()))
    with making(tmp_path, tiny_model.NAME):
        reply = Client().get("/api/v1/models/hub/tiny", headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "model_being_made")
    reply = Client().get("/api/v1/models/hub/tiny", headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")
