"""`hub team ...`, and acting for a team, against the real API."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core import mail
from envhub.errors import EnvhubError
from pytest_django import Settings

from hub.accounts.models import Membership
from hub.evals.models import Evaluation
from hub.registry.models import Environment
from hub.sandboxes.models import Sandbox
from hub.secrets.models import Secret
from tests.envhub.cli.conftest import Cli, MakeCli
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted
from tests.factories.packages import write_package
from tests.factories.registry import create_ready_version


@pytest.fixture
def bob(make_cli: MakeCli) -> Cli:
    return make_cli(make_user("bob"))


@pytest.fixture
def team(cli: Cli) -> str:
    """Alice's."""
    return str(cli.json("team", "create", "acme", "--title", "Acme Research")["name"])


def test_a_member_comes_by_a_link_and_goes(cli: Cli, bob: Cli, team: str) -> None:
    link = cli("team", "invite", team, "--role", "reader").stdout.strip()
    assert bob("team", "join", link).stdout == "you are in acme now, with the role reader\n"
    assert cli.json("team", "role", team, "bob", "member")["role"] == "member"
    assert [(one["name"], one["role"]) for one in bob.json("team", "list")] == [("acme", "member")]
    assert "bob" in cli("team", "show", team).stdout
    bob("team", "leave", team)
    assert "the team acme does not exist" in bob("team", "show", team, code=1).stderr


def test_an_owner_adds_removes_revokes_renames_and_deletes(cli: Cli, bob: Cli, team: str) -> None:
    cli("team", "add", team, "bob", "--role", "owner")
    cli("team", "remove", team, "bob")
    made = cli.json("team", "invite", team)
    cli("team", "revoke", team, made["invitation"]["id"])
    bob("team", "join", made["url"], code=1)
    assert cli.json("team", "rename", team, "Acme")["display_name"] == "Acme"
    assert cli.json("team", "show", team)["invitations"] == []
    cli("team", "delete", team, "--yes")
    assert cli.json("team", "list") == []


def test_an_invitation_goes_by_mail_and_again(cli: Cli, bob: Cli, team: str, settings: Settings) -> None:
    assert "this hub sends no mail" in cli("team", "invite", team, "--mail", "bob@example.org", code=1).stderr
    settings.HUB = settings.HUB.model_copy(update={"mail_url": "console:"})
    assert cli("team", "invite", team, "--mail", "bob@example.org").stdout == "sent to bob@example.org\n"
    assert "bob@example.org" in cli("team", "show", team).stdout
    (waiting,) = cli.json("team", "show", team)["invitations"]
    again = cli.json("team", "send", team, waiting["id"])
    assert again["url"] in str(mail.outbox[-1].body)
    bob("team", "join", again["url"])
    assert cli.json("team", "show", team)["invitations"] == []


def test_the_last_owner_is_told_what_to_do(cli: Cli, team: str) -> None:
    said = cli("team", "leave", team, code=1).stderr
    assert "alice is the last owner of acme" in said
    assert "make another member owner first" in said


def test_commands_act_for_the_team_that_is_in_use(cli: Cli, team: str) -> None:
    cli("team", "use", team)
    assert cli.json("config")["acts_for"] == "acme"
    write_package(Path("environments"))
    cli("push", "tiny-env", "--no-wait")
    cli("secret", "set", "KEY", stdin="value")
    assert Environment.objects.get().owner.slug == Secret.objects.get().owner.slug == "acme"
    assert cli.json("env", "info", "tiny-env")["environment"]["owner"] == "acme"
    cli("secret", "set", "KEY", "--team", "alice", stdin="value")
    assert Secret.objects.filter(owner__slug="alice").exists()
    cli("team", "use")
    assert cli.json("config")["acts_for"] is None


LISTS = [("eval", "list"), ("env", "list"), ("train", "list"), ("run", "list"), ("sandbox", "list"), ("deploy", "list")]


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_a_list_can_be_that_of_a_team(cli: Cli, team: str, command: tuple[str, str]) -> None:
    create_hosted(cli.user)
    assert cli.json(*command, "--team", team) == []


def test_usage_can_be_that_of_a_team(cli: Cli, team: str) -> None:
    assert [one["owner"] for one in cli.json("usage", "--team", team)["owners"]] == [team]
    assert "Your owners: acme, alice." in cli("usage", "--team", "nobody", code=2).stderr


def test_another_hub_is_not_acted_on_for_a_team_of_this_one(cli: Cli, team: str) -> None:
    cli("team", "use", team)
    cli.environ["HUB_URL"] = "http://localhost:8000"
    assert cli.json("config")["acts_for"] is None


def test_nobody_acts_for_a_team_of_others(cli: Cli, bob: Cli, team: str) -> None:
    assert "you cannot act for acme" in bob("team", "use", team, code=2).stderr
    bob.environ["HUB_OWNER"] = team
    assert "the owner acme does not exist" in bob("secret", "set", "KEY", stdin="value", code=1).stderr


def test_an_evaluation_is_started_for_a_team(cli: Cli, bob: Cli, team: str) -> None:
    create_ready_version(cli.user, "adder")
    create_endpoint(cli.user, "stub")
    cli("team", "add", team, "bob", "--role", "reader")
    started = cli.json("eval", "run", "alice/adder", "-m", "alice/stub", "--team", team, "--no-wait")
    assert Evaluation.objects.get().owner.slug == "acme"
    assert bob.json("eval", "show", started["id"])["id"] == started["id"]
    assert "member" in bob("eval", "cancel", started["id"], code=1).stderr
    Membership.objects.get(user=bob.user, owner__slug=team).delete()
    bob("eval", "show", started["id"], code=1)


def test_a_command_is_run_in_a_sandbox_of_a_team(cli: Cli, team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_worker(*_: object) -> None:
        raise EnvhubError("no worker is here")

    monkeypatch.setattr("envhub.cli.sandboxes.execute.wait_for", no_worker)
    cli("sandbox", "run", "--team", team, "--", "true", code=1)
    assert Sandbox.objects.get().owner.slug == team
