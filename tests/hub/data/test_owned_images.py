"""Images of owners: what a name means to whose runs, who may put, show and forget them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import BlobRef
from envhub.protocol.registry.needs import CheckSettings, Need, NeedKind
from envhub.protocol.visibility import Visibility
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from hub.accounts.models import Owner, User
from hub.accounts.services import create_team
from hub.core import needs
from hub.core.errors import Conflict, HubError
from hub.data.images import ImageLacking, Place, add_image, change_image, source_of
from hub.data.models import Image
from hub.data.queries import find_image, usable_images
from hub.evals.models import Evaluation
from hub.evals.services import create_evaluation
from hub.registry.models import VersionUse
from hub.registry.readiness import require_runnable
from hub.runs.models import Run
from tests.factories.accounts import make_token, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import make_config
from tests.factories.images import create_image
from tests.factories.registry import create_needing_version, create_ready_version
from tests.factories.runs import make_run
from tests.factories.storage import make_blob

pytestmark = pytest.mark.django_db
NAME = "tool:1"


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def bob() -> User:
    return make_user("bob")


def run_of(user: User, owner: Owner | None = None) -> Run:
    return make_run(owner=owner or user.owner, created_by=user)


def evaluation_of(author: User, by: User) -> Run:
    """A run of `by` that evaluates an environment of `author`."""
    create_ready_version(author)
    create_endpoint(by)
    config = make_config(f"{author.username}/tiny-env", f"{by.username}/stub")
    run = create_evaluation(user=by, owner=by.owner, config=config).run
    assert run is not None
    return run


def digest(run: Run, name: str = NAME) -> str:
    """Of what the name means there; "": it is lacking."""
    try:
        return source_of(name, run).digest
    except ImageLacking:
        return ""


def test_a_name_means_the_owners_own_image_before_everybodys(ada: User, bob: User) -> None:
    own, everybodys = create_image(ada.owner, NAME), create_image(None, NAME)
    assert [digest(run_of(user)) for user in (ada, bob)] == [own.digest, everybodys.digest]


def test_an_environment_gets_its_authors_image_where_whoever_runs_it_may_have_it(ada: User, bob: User) -> None:
    row, everybodys = create_image(ada.owner, NAME), create_image(None, NAME)
    run = evaluation_of(ada, bob)
    assert digest(run) == everybodys.digest
    change_image(place=Place(NAME, ada.owner), visibility=Visibility.PUBLIC)
    create_image(bob.owner, NAME)
    part = make_run(owner=bob.owner, created_by=bob, parent=run)
    assert digest(run) == digest(part) == row.digest  # also before bob's own of that name
    assert digest(run_of(bob)) != row.digest


@pytest.mark.parametrize("name", ["hub/ada/tool:1", "prime/ada/tool:1", "prime/team-ada/tool:1"])
def test_a_name_may_say_whose_it_is(ada: User, bob: User, name: str) -> None:
    row = create_image(ada.owner, NAME)
    assert (digest(run_of(ada), name), digest(run_of(bob), name)) == (row.digest, "")
    assert (digest(evaluation_of(ada, bob), name)) == ""  # by no argument of an environment either
    change_image(place=Place(NAME, ada.owner), visibility=Visibility.PUBLIC)
    assert digest(run_of(bob), name) == row.digest


def test_a_team_of_the_very_name_comes_before_what_is_left_of_it_without_team(ada: User, bob: User) -> None:
    meant, other = create_team(user=ada, slug="team-zed"), create_team(user=ada, slug="zed")
    rows = [create_image(owner, NAME, visibility=Visibility.PUBLIC) for owner in (other, meant)]
    assert [digest(run_of(bob), f"hub/{name}/{NAME}") for name in ("zed", "team-zed")] == [row.digest for row in rows]
    change_image(place=Place(NAME, meant), visibility=Visibility.PRIVATE)
    assert digest(run_of(bob), f"hub/team-zed/{NAME}") == ""


def test_many_names_are_looked_up_as_one_is_and_in_a_few_queries(
    ada: User, bob: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    team, plain = create_team(user=ada, slug="team-zed"), create_team(user=ada, slug="zed")
    create_image(team, "hidden:1")
    create_image(plain, "hidden:1", visibility=Visibility.PUBLIC)
    for number in range(5):
        create_image(ada.owner, f"tool:{number}", visibility=Visibility.PUBLIC if number % 2 else Visibility.PRIVATE)
    names = [
        f"{place}/{owner}/tool:{number}"
        for place in ("hub", "prime")
        for owner in ("ada", "team-ada")
        for number in range(7)
    ]
    names += [f"hub/{owner}/hidden:1" for owner in ("zed", "team-zed")]
    for user in (ada, bob, None):
        known = {name for name in names if find_image(name, owner_id=bob.owner.pk, user=user) is not None}
        with django_assert_max_num_queries(3):
            assert usable_images(names, owner_id=bob.owner.pk, user=user) == known
        assert len(known) == {ada: 22, bob: 9, None: 9}[user]


def test_members_have_their_teams_images_in_runs_of_their_own(ada: User, bob: User) -> None:
    team = create_team(user=ada, slug="lab")
    row = create_image(team, NAME)
    assert [digest(run_of(user), "hub/lab/tool:1") for user in (ada, bob)] == [row.digest, ""]
    assert digest(run_of(ada, team)) == row.digest


def test_what_says_whose_it_is_comes_from_no_registry(ada: User, settings: Any) -> None:
    settings.HUB = settings.HUB.model_copy(update={"image_registries": ["docker.io"]})
    assert source_of("some/tool:1", run_of(ada)).reference
    with pytest.raises(HubError, match="no image hub/eve/tool:1") as lacking:
        source_of("hub/eve/tool:1", run_of(ada))
    assert "eve" in lacking.value.hint


def test_what_is_added_again_stays_as_visible_as_it_was(ada: User) -> None:
    blob = make_blob()
    content = BlobRef(sha256=blob.sha256, size=blob.size)
    create_image(ada.owner, NAME, visibility=Visibility.PUBLIC)
    row = add_image(place=Place(NAME, ada.owner), layout="docker", content=content, by=ada)
    assert (row.visibility, Image.objects.count()) == ("public", 1)


@pytest.mark.parametrize(("visible", "checked"), [(Visibility.PRIVATE, False), (Visibility.PUBLIC, True)])
def test_versions_wait_for_images_that_they_may_have(
    ada: User,
    bob: User,
    visible: Visibility,
    checked: bool,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    wanted = {ada: NAME, bob: "hub/ada/tool:1"}
    waiting = {
        user: create_needing_version(Need(kind=NeedKind.SANDBOX, name=name), user=user) for user, name in wanted.items()
    }
    other = create_needing_version(Need(kind=NeedKind.SANDBOX, name=NAME), user=make_user())
    Run.objects.update(state="succeeded")
    with django_capture_on_commit_callbacks(execute=True):
        create_image(ada.owner, NAME, visibility=visible)
    rechecked = set(Run.objects.filter(state="queued").values_list("owner__slug", flat=True))
    assert rechecked == {"ada"} | ({"bob"} if checked else set())
    met = {user: needs.has(Need(kind=NeedKind.SANDBOX, name=wanted[user]), user.owner.pk) for user in waiting}
    assert met == {ada: True, bob: checked}
    assert not needs.has(Need(kind=NeedKind.SANDBOX, name=NAME), other.environment.owner_id)


def test_an_evaluation_that_has_another_run_by_now_lends_nothing(ada: User, bob: User) -> None:
    row = create_image(ada.owner, NAME, visibility=Visibility.PUBLIC)
    run = evaluation_of(ada, bob)
    assert digest(run) == row.digest
    Evaluation.objects.update(run=None)
    assert digest(run) == ""


def test_on_the_page_members_show_and_delete_their_images(client: Client, ada: User, bob: User) -> None:
    row = create_image(ada.owner, NAME)
    everybodys = create_image(None, "base:1")
    client.force_login(bob)
    assert "tool:1" not in client.get("/data").content.decode()
    assert client.post(f"/data/images/{row.pk}/visibility", {"visibility": "public"}).status_code == 404
    client.force_login(ada)
    assert "Make public" in client.get("/data?owner=ada").content.decode()
    client.post(f"/data/images/{row.pk}/visibility", {"visibility": "public"})
    assert client.post(f"/data/images/{row.pk}/visibility", {"visibility": "all"}).status_code == 422
    assert client.post(f"/data/images/{everybodys.pk}/delete").status_code == 403
    client.force_login(bob)
    page = client.get("/data").content.decode()
    assert ("hub/ada/tool:1" in page, "Make private" in page) == (True, False)
    assert client.post(f"/data/images/{row.pk}/delete").status_code == 403
    client.force_login(ada)
    assert client.post(f"/data/images/{row.pk}/delete")["Location"] == "/data#images"
    assert set(Image.objects.values_list("name", flat=True)) == {"base:1"}


class TestOverRest:
    @pytest.fixture
    def call(self, client: Client) -> Any:
        def call(method: str, user: User, path: str = "images", **body: Any) -> Any:
            token = make_token(user, Scope.READ, Scope.WRITE)
            headers = {"Authorization": f"Bearer {token}"}
            return client.generic(method, f"/api/v1/{path}", json.dumps(body), "application/json", headers=headers)

        return call

    def test_an_owners_image_is_its_members_affair(self, call: Any, ada: User, bob: User) -> None:
        create_team(user=ada, slug="lab")
        blob = make_blob()
        given = {"name": "tool:1", "layout": "docker", "sha256": blob.sha256, "size": blob.size}
        assert call("PUT", bob, **given, owner="lab").status_code == 404
        made = call("PUT", ada, **given, owner="lab").json()
        assert (made["name"], made["owner"], made["visibility"]) == ("tool:1", "lab", "private")
        seen = [[item["owner"] for item in call("GET", user).json()["items"]] for user in (ada, bob)]
        assert seen == [["lab"], []]
        assert call("PATCH", bob, name="hub/lab/tool:1", visibility="public").status_code == 404
        assert call("PATCH", ada, name="hub/lab/tool:1", visibility="public").json()["visibility"] == "public"
        assert [item["owner"] for item in call("GET", bob).json()["items"]] == ["lab"]
        assert call("DELETE", bob, "images?name=tool:1&owner=lab").status_code == 404
        assert call("DELETE", ada, "images?name=hub/lab/tool:1").status_code == 204
        assert not Image.objects.exists()

    @pytest.mark.parametrize(
        ("given", "status"),
        [
            ({"name": "hub/ada/tool:1", "owner": "lab"}, 422),
            ({"name": "hub/ada/tool:1", "everybody": True}, 403),
            ({"name": "tool@sha256:" + "1" * 64}, 422),
            ({"name": "../tool"}, 422),
            ({"name": "hub/nobody/tool:1"}, 404),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, call: Any, ada: User, given: dict[str, Any], status: int) -> None:
        create_team(user=ada, slug="lab")
        blob = make_blob()
        answer = call("PUT", ada, **given, layout="docker", sha256=blob.sha256, size=blob.size)
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("stand_ins", "name", "lent"), [(True, NAME, False), (False, "python:3.11", False), (True, "python:3.11", True)]
)
def test_who_runs_anothers_environment_is_told_before_the_run_what_its_owner_keeps(
    ada: User, bob: User, settings: Any, *, stand_ins: bool, name: str, lent: bool
) -> None:
    settings.HUB = settings.HUB.model_copy(update={"image_stand_ins": stand_ins})
    version = create_ready_version(ada)
    VersionUse.objects.create(version=version, kind=NeedKind.SANDBOX.value, name=name)
    create_image(ada.owner, name)

    def runnable(user: User, **arguments: Any) -> bool:
        given = CheckSettings(env_args=arguments)
        try:
            require_runnable(version, given, needs.Borrower(user.owner.pk, user))
        except Conflict as error:
            return error.code != "needs_unmet" or name not in error.message
        return True

    assert (runnable(ada), runnable(bob), runnable(bob, image="another")) == (True, lent, True)
    change_image(place=Place(name, ada.owner), visibility=Visibility.PUBLIC)
    assert runnable(bob)
