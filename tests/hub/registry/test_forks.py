"""Forks: who may make and see them, what they hold, what they cost, and that they outlive their original."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from hub.accounts.models import Membership, Owner, Role, User
from hub.core.errors import Conflict
from hub.registry.models import Environment, Version
from hub.registry.services import delete_environment, fork_environment
from hub.storage.queries import backend
from hub.storage.quota import used_by
from hub.storage.services import collect_garbage
from tests.factories.accounts import make_user
from tests.factories.registry import build_pair, create_ready_version, push_pair
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
FORKS = "environments/alice/tiny-env/forks"


@pytest.fixture
def version() -> Version:
    """Of alice's, public and ready."""
    return create_ready_version(make_user("alice"))


@pytest.fixture
def bob(version: Version) -> User:
    return make_user("bob")


def hide(version: Version) -> None:
    Environment.objects.filter(pk=version.environment_id).update(visibility="private")


def test_a_fork_has_the_files_of_the_version_and_is_built_anew(version: Version, bob: User) -> None:
    Version.objects.filter(pk=version.pk).update(check_settings={"secrets": ["KEY"]})
    made = call(bob, "post", FORKS, {}).json()
    assert (made["owner"], made["name"], made["forked_from"]) == ("bob", "tiny-env", "alice/tiny-env@0.1.0")
    fork = Version.objects.get(environment__owner=bob.owner)
    assert (fork.wheel_id, fork.content_digest) == (version.wheel_id, version.content_digest)
    assert (fork.state, fork.lock, fork.check_settings, fork.created_by) == ("building", None, None, bob)
    assert fork.build_run is not None
    assert fork.build_run.owner == bob.owner


def test_a_fork_is_charged_to_both_owners(version: Version, bob: User) -> None:
    size = version.wheel.size + version.sdist.size
    fork_environment(user=bob, version=version, owner=bob.owner)
    owners = [version.environment.owner_id, bob.owner.pk]
    assert used_by(owners) == dict.fromkeys(owners, size)


def test_a_fork_outlives_its_original(version: Version, bob: User, client: Client) -> None:
    fork = fork_environment(user=bob, version=version, owner=bob.owner)
    delete_environment(environment=version.environment)
    collect_garbage(now=timezone.now() + timedelta(days=9))
    assert backend().stat(version.wheel_id) is not None
    page = f"/environments/bob/{fork.name}"
    assert "alice" not in client.get(page).content.decode(), "it may have been private"
    client.force_login(bob)
    assert "alice/tiny-env@0.1.0, which has been deleted" in client.get(page).content.decode()


def test_who_may_read_a_private_environment_forks_it_and_others_do_not(version: Version, bob: User) -> None:
    hide(version)
    assert call(bob, "post", FORKS, {}).status_code == 404
    Membership.objects.create(owner=version.environment.owner, user=bob, role=Role.READER)
    assert call(bob, "post", FORKS, {"owner": "alice", "name": "other"}).status_code == 403
    assert call(bob, "post", FORKS, {}).json()["visibility"] == "private"


def test_a_public_fork_of_what_is_private_does_not_name_it(version: Version, bob: User, client: Client) -> None:
    fork_environment(user=bob, version=version, owner=bob.owner)
    assert "alice/tiny-env@0.1.0" in client.get("/environments/bob/tiny-env").content.decode()
    hide(version)
    assert "alice" not in client.get("/environments/bob/tiny-env").content.decode()
    assert call(None, "get", "environments/bob/tiny-env").json()["forked_from"] is None


def test_the_original_lists_the_forks_that_one_may_see(version: Version, bob: User) -> None:
    fork = fork_environment(user=bob, version=version, owner=bob.owner)
    assert [one["owner"] for one in call(None, "get", FORKS).json()["items"]] == ["bob"]
    Environment.objects.filter(pk=fork.pk).update(visibility="private")
    assert call(None, "get", FORKS).json()["items"] == []


def test_a_fork_of_another_name_goes_on_with_pushes_of_its_package(version: Version, bob: User) -> None:
    fork = fork_environment(user=bob, version=version, owner=bob.owner, name="mine")
    assert push_pair(bob, build_pair("tiny-env", "0.2.0")).version.environment == fork
    with pytest.raises(Conflict) as caught:
        fork_environment(user=bob, version=version, owner=bob.owner, name="again")
    assert (caught.value.code, str(caught.value)) == ("name_taken", "bob/tiny-env already exists")
    assert "another owner" in caught.value.hint
    with pytest.raises(Conflict) as caught:
        fork_environment(user=bob, version=version, owner=bob.owner, name="mine")
    assert caught.value.hint == "choose another name"


def test_the_form_forks_to_a_team_and_says_what_is_taken(version: Version, bob: User, client: Client) -> None:
    team = Owner.objects.create(slug="lab", kind="team")
    Membership.objects.create(owner=team, user=bob, role=Role.MEMBER)
    client.force_login(bob)
    form = {"owner": "lab", "name": "mine", "version": "0.1.0", "visibility": "private"}
    assert client.post("/environments/alice/tiny-env/fork", form)["Location"] == "/environments/lab/mine/versions/0.1.0"
    again = client.post("/environments/alice/tiny-env/fork", form)
    assert (again.status_code, "lab/mine already exists" in again.content.decode()) == (409, True)
