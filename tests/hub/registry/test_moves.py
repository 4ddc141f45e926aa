"""Environments that are renamed or given away: what leads to them, who may, what is pushed to their former names."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.runs import RunState

from hub.accounts.models import Membership, Owner, Role, User
from hub.core.errors import Conflict
from hub.registry.models import Environment, Version
from hub.registry.services import move_environment, rebuild_version
from hub.runs.models import Run
from hub.storage.quota import used_by
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import make_config
from tests.factories.registry import build_pair, create_ready_version, push_pair
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
OLD = "environments/alice/tiny-env"


@pytest.fixture
def alice() -> User:
    alice = make_user("alice")
    create_ready_version(alice)
    return alice


@pytest.fixture
def team(alice: User) -> Owner:
    team = Owner.objects.create(slug="lab", kind="team")
    Membership.objects.create(owner=team, user=alice, role=Role.MEMBER)
    return team


def files(path: str) -> list[str]:
    answer = Client(headers={"Accept": "application/vnd.pypi.simple.v1+json"}).get(f"/index/{path}/")
    return [file["filename"] for file in answer.json()["files"]] if answer.status_code == 200 else []


def test_a_former_address_leads_to_the_environment(alice: User, team: Owner, client: Client) -> None:
    moved = call(alice, "post", f"{OLD}/move", {"owner": "lab", "name": "small-env"}).json()
    assert (moved["owner"], moved["name"]) == ("lab", "small-env")
    assert call(None, "get", f"{OLD}/versions/latest").json()["name"] == "small-env"
    assert client.get(f"/{OLD}/versions?x=1")["Location"] == "/environments/lab/small-env/versions?x=1"
    assert "pip install" in client.get("/environments/lab/small-env").content.decode()
    found = call(None, "get", "environments?search=small-env").json()["items"]
    assert [item["owner"] for item in found] == ["lab"]
    call(alice, "patch", "environments/lab/small-env", {"visibility": "private"})
    assert call(None, "get", OLD).status_code == 404
    assert client.get(f"/{OLD}").status_code == 404


def test_installers_find_each_version_under_the_name_of_its_package(alice: User, team: Owner) -> None:
    before = files("alice/simple/tiny-env")
    move_environment(environment=Environment.objects.get(), owner=team, name="small-env")
    assert files("alice/simple/tiny-env") == files("lab/simple/tiny-env") == before != []
    assert files("lab/simple/small-env") == []
    push_pair(alice, build_pair("small-env", "0.2.0"), owner=team)
    assert files("lab/simple/small-env") == ["small_env-0.2.0-py3-none-any.whl", "small_env-0.2.0.tar.gz"]
    sha256 = Version.objects.order_by("pk")[0].wheel_id
    assert Client().get(f"/index/alice/files/{sha256}/{before[0]}").status_code == 200
    assert b"tiny-env" in Client().get("/index/alice/simple/").content


def test_a_package_of_the_former_name_is_pushed_into_the_same_environment(alice: User, team: Owner) -> None:
    environment = move_environment(environment=Environment.objects.get(), owner=alice.owner, name="small-env")
    version = push_pair(alice, build_pair("tiny-env", "0.2.0")).version
    assert (version.environment, version.project) == (environment, "tiny-env")
    Version.objects.update(state="ready")
    move_environment(environment=environment, owner=team, name="small-env")
    with pytest.raises(Conflict, match="moved to lab/small-env"):
        push_pair(alice, build_pair("tiny-env", "0.3.0"))
    assert call(alice, "delete", "former-names/alice/tiny-env").status_code == 204
    assert push_pair(alice, build_pair("tiny-env", "0.3.0")).version.environment != environment


def test_it_is_evaluated_by_its_former_name_and_loaded_by_its_packages(alice: User) -> None:
    move_environment(environment=Environment.objects.get(), owner=alice.owner, name="small-env")
    create_endpoint(alice, "stub")
    config = make_config("alice/tiny-env", "alice/stub")
    evaluation = call(alice, "post", "evaluations", config.model_dump(mode="json")).json()
    assert evaluation["environment"] == "alice/small-env"


def test_its_packages_count_for_the_owner_that_it_moves_to(alice: User, team: Owner) -> None:
    push_pair(alice, build_pair("other-env", "0.1.0"))
    both = used_by([alice.owner.pk])[alice.owner.pk]
    version = Version.objects.get(environment__name="tiny-env")
    move_environment(environment=version.environment, owner=team, name="tiny-env")
    size = version.wheel.size + version.sdist.size
    assert used_by([alice.owner.pk, team.pk]) == {alice.owner.pk: both - size, team.pk: size}


def test_an_address_that_is_or_was_anothers_is_refused(alice: User) -> None:
    push_pair(alice, build_pair("other-env", "0.1.0"))
    environment = Environment.objects.get(name="tiny-env")
    assert call(alice, "post", f"{OLD}/move", {"name": "other-env"}).json()["error"]["code"] == "name_taken"
    move_environment(environment=environment, owner=alice.owner, name="small-env")
    reply = call(alice, "post", "environments/alice/other-env/move", {"name": "tiny-env"})
    assert reply.json()["error"]["code"] == "name_taken"
    assert "hub env forget alice/tiny-env" in reply.json()["error"]["hint"]
    back = move_environment(environment=environment, owner=alice.owner, name="tiny-env")
    assert [former.name for former in back.former_names.all()] == ["small-env"]


def test_admins_move_to_owners_of_theirs_what_is_not_being_built(alice: User, team: Owner, client: Client) -> None:
    bob = make_user("bob")
    assert call(alice, "post", f"{OLD}/move", {"owner": "bob"}).status_code == 404
    Membership.objects.create(owner=alice.owner, user=bob, role=Role.MEMBER)
    assert call(bob, "post", f"{OLD}/move", {"name": "x"}).status_code == 403
    push_pair(alice, build_pair("tiny-env", "0.2.0"))
    client.force_login(alice)
    assert "is being built" in client.post(f"/{OLD}/move", {"owner": "lab"}).content.decode()
    Version.objects.update(state="ready", check_settings={"secrets": ["KEY"]})
    assert client.post(f"/{OLD}/move", {"owner": "lab"})["Location"] == "/environments/lab/tiny-env"
    assert set(Version.objects.values_list("check_settings", flat=True)) == {None}


def test_a_rebuild_that_was_asked_for_before_is_of_its_new_owner(alice: User, team: Owner) -> None:
    version = Version.objects.select_related("environment__owner").get()
    Run.objects.update(state=RunState.SUCCEEDED.value)
    move_environment(environment=Environment.objects.get(), owner=team, name="tiny-env")
    assert rebuild_version(version=version, user=alice).owner == team
