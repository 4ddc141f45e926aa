"""The form that starts an evaluation, as a browser without JavaScript sends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from envhub.protocol.registry.needs import Need, NeedKind
from pytest_django import Settings

from hub.accounts.models import Membership, Role, User
from hub.catalog.making import making
from hub.evals.models import Evaluation
from hub.registry.models import Version
from hub.secrets.services import set_secret
from tests.factories.accounts import make_owner, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted
from tests.factories.registry import create_needing_version, create_ready_version, push_version
from tests.factories.runs import make_worker

pytestmark = pytest.mark.django_db
SCHEMA = {"level": {"annotation": "int", "default": 1}, "note": {"annotation": "str", "default": ""}}
PAGE = "/environments/grace/tiny-env/evaluate"
FORM = {"version": "0.1.0", "model": "grace/stub", "num_examples": "2", "rollouts_per_example": "1"}


@pytest.fixture
def grace() -> User:
    return make_user("grace")


@pytest.fixture
def browser(client: Client, grace: User) -> Client:
    client.force_login(grace)
    return client


@pytest.fixture
def version(grace: User) -> Version:
    create_endpoint(grace)
    made = create_ready_version(grace)
    made.describe = {"env_class": "E", "splits": {"eval": {"size": 4}}, "args_schema": SCHEMA}
    made.save(update_fields=["describe"])
    return made


def test_the_form_starts_an_evaluation(browser: Client, version: Version) -> None:
    reply = browser.post(PAGE, FORM | {"temperature": "0.5", "argument.level": "3", "argument.note": ""})
    made = Evaluation.objects.get()
    assert reply["Location"] == f"/evaluations/{made.pk}"
    assert (made.version_id, made.planned, made.config["env_args"]) == (version.pk, 2, {"level": 3})
    assert made.config["sampling"] == {"temperature": 0.5}


def test_a_wrong_value_is_explained_at_its_field_and_what_was_typed_stays(browser: Client, version: Version) -> None:
    reply = browser.post(PAGE, FORM | {"argument.level": "high", "argument.note": "<kept>"})
    html = reply.content.decode()
    assert (reply.status_code, Evaluation.objects.count()) == (422, 0)
    assert "It is not a whole number" in html
    assert 'value="high"' in html
    assert "&lt;kept&gt;" in html


def test_an_unknown_model_is_explained_at_its_field(browser: Client, version: Version) -> None:
    reply = browser.post(PAGE, FORM | {"model": "grace/absent"})
    assert reply.status_code == 404
    assert reply.context["main"][0].error == "no model grace/absent"


def test_the_newest_ready_version_is_chosen(browser: Client, grace: User, version: Version) -> None:
    push_version(grace, version="0.2.0")
    assert browser.get(PAGE).context["version_field"].value == "0.1.0"
    assert browser.get(f"{PAGE}?version=0.2.0").context["version_field"].value == "0.2.0"


def test_without_a_ready_version_the_form_says_what_to_do(browser: Client, grace: User) -> None:
    push_version(grace)
    html = browser.get(PAGE).content.decode()
    assert "0.1.0 is being built" in html
    assert "Follow the build" in html
    assert "no build worker is online" in html
    Version.objects.update(state="invalid")
    assert "Its page explains what to fix" in browser.get(PAGE).content.decode()


def test_who_waits_for_a_build_gets_the_whole_page_once_it_is_ready(browser: Client, grace: User) -> None:
    push_version(grace)
    headers = {"HX-Request": "true", "HX-Target": "results"}
    waiting = browser.get(f"{PAGE}?wait=1", headers=headers)
    assert 'hx-trigger="every 2s"' in waiting.content.decode()
    Version.objects.update(state="ready", lock={})
    assert browser.get(f"{PAGE}?wait=1", headers=headers)["HX-Refresh"] == "true"


def test_what_is_lacking_is_said_before_the_start(browser: Client, grace: User) -> None:
    create_endpoint(grace)
    create_needing_version(Need(kind=NeedKind.SECRET, name="KEY"), Need(kind=NeedKind.DATA_SET, name="a/b"), user=grace)
    html = browser.get(PAGE).content.decode()
    assert "grace has no secret KEY" in html
    assert "It needs data set a/b" in html
    assert "No eval worker is online" in html
    set_secret(owner=grace.owner, name="KEY", value="x", user=grace)
    make_worker()
    html = browser.get(PAGE).content.decode()
    assert "has no secret" not in html
    assert "worker is online" not in html


def test_the_command_follows_what_is_typed_and_nothing_is_started(browser: Client, version: Version) -> None:
    headers = {"HX-Request": "true", "HX-Target": "live"}
    reply = browser.post(PAGE, FORM | {"argument.note": "it's"}, headers=headers)
    html = reply.content.decode()
    assert "hub eval run grace/tiny-env@0.1.0 -m grace/stub -n 2 -r 1 --env-args" in html
    assert "2 rollouts." in html
    assert "<form" not in html
    assert not Evaluation.objects.exists()


def test_another_version_is_shown_with_what_was_typed(browser: Client, version: Version) -> None:
    reply = browser.post(PAGE, FORM | {"show": "1", "num_examples": "17"})
    assert (reply.status_code, Evaluation.objects.count()) == (200, 0)
    assert 'value="17"' in reply.content.decode()


def test_an_evaluation_is_started_again_with_its_settings(browser: Client, grace: User, version: Version) -> None:
    create_endpoint(grace, "other")
    earlier = create_hosted(grace, env_args={"level": 7}, sampling={"top_p": 0.5}, seed=3)
    reply = browser.get(f"{PAGE}?from={earlier.pk}&model=grace/other")
    assert "--env-args" in reply.context["command"]
    texts = {field.name: field.value for part in ("main", "arguments", "more") for field in reply.context[part]}
    browser.post(PAGE, texts | {"version": "0.1.0", "model": "grace/stub"})
    again = Evaluation.objects.exclude(pk=earlier.pk).get()
    assert {**again.config, "environment": ""} == {**earlier.config, "environment": ""}
    assert texts["model"] == "grace/other"


@pytest.mark.parametrize(("role", "chosen"), [(Role.MEMBER, "lab"), (Role.READER, "grace")])
def test_an_evaluation_of_a_team_is_started_again_for_it_by_its_members(
    browser: Client, grace: User, version: Version, role: Role, chosen: str
) -> None:
    earlier = create_hosted(grace)
    Evaluation.objects.update(owner=make_owner("lab", members=[grace], role=role))
    fields = {field.name: field.value for field in browser.get(f"{PAGE}?from={earlier.pk}").context["main"]}
    assert fields.get("owner", "grace") == chosen


def test_what_one_may_not_see_is_absent(version: Version, client: Client) -> None:
    other = create_hosted(make_user("heidi"))
    eve = make_user("eve")
    client.force_login(eve)
    assert client.get(f"{PAGE}?from={other.pk}").status_code == 404
    assert client.post(PAGE, FORM | {"owner": "grace"}).status_code == 404
    assert client.post(PAGE, FORM).status_code == 404  # grace's model
    assert not Evaluation.objects.exclude(pk=other.pk).exists()


def test_a_reader_of_a_team_does_not_see_the_names_of_its_secrets(
    version: Version, client: Client, grace: User
) -> None:
    reader = make_user("reader")
    team = make_owner("team", members=[grace])
    Membership.objects.create(owner=team, user=reader, role=Role.READER)
    set_secret(owner=team, name="HIDDEN_KEY", value="x", user=grace)
    for user, status in ((grace, 200), (reader, 403)):
        client.force_login(user)
        reply = client.post(PAGE, FORM | {"owner": "team", "show": "1"})
        assert (reply.status_code, b"HIDDEN_KEY" in reply.content) == (status, user == grace)
        assert (b"--team team" in reply.content) == (user == grace)


def test_visitors_sign_in_first(version: Version, client: Client) -> None:
    assert client.get(PAGE)["Location"] == f"/login?next={PAGE}"


def test_hub_tiny_is_offered_while_it_is_made(
    browser: Client, version: Version, settings: Settings, tmp_path: Path
) -> None:
    settings.HUB = settings.HUB.model_copy(update={"data": tmp_path})
    with making(tmp_path, "tiny"):
        reply = browser.get(PAGE)
    assert reply.context["main"][0].value == "hub/tiny"
    assert "still creating hub/tiny" in reply.content.decode()


@pytest.mark.parametrize("schema", [None, [1], {"a": {"annotation": "Literal[", "default": {"b": [None]}}}])
def test_any_description_has_a_form(browser: Client, version: Version, schema: object) -> None:
    Version.objects.filter(pk=version.pk).update(describe={"args_schema": schema, "splits": {"eval": 3}})
    assert browser.get(PAGE).status_code == 200


def test_a_first_visitor_adds_the_sample_and_evaluates_it(browser: Client, grace: User) -> None:
    assert "Add a sample environment" in browser.get("/").content.decode()
    page = browser.post("/environments/sample")["Location"]
    assert page == "/environments/grace/sums/evaluate"
    assert "0.1.0 is being built" in browser.get(page).content.decode()
    version = Version.objects.get()
    assert (version.environment.visibility, version.build_run is not None) == ("private", True)
    assert browser.post("/environments/sample")["Location"] == page
    assert Version.objects.count() == 1
    create_endpoint(grace)
    Version.objects.update(state="ready", lock={})
    assert "/evaluations/" in browser.post(page, {"model": "grace/stub"})["Location"]


@pytest.mark.parametrize(
    "typed",
    [
        {"secret.A\x00": "on"},
        {"model": "grace/stub\x00"},
        {"judge.\x00": "grace/stub"},
        {"env_args": '{"level": "' + "x" * 70_000 + '"}'},
        {"num_examples": "9" * 5000},
        {"allow_hosts": "169.254.169.254:80"},
        {"version": "\x00"},
        {"owner": "\x00"},
    ],
)
def test_what_cannot_be_stored_or_granted_is_refused_kindly(
    browser: Client, version: Version, typed: dict[str, str]
) -> None:
    assert browser.post(PAGE, FORM | typed).status_code in {302, 404, 409, 413, 422}


@pytest.mark.parametrize("query", ["from=zz", "from=%00", "from=1", "version=%00", "owner=%00", "model=%00"])
def test_an_address_of_any_kind_is_no_bug(browser: Client, version: Version, query: str) -> None:
    assert browser.get(f"{PAGE}?{query}").status_code in {200, 404, 422}
