"""`hub env star|archive|move|diff|set|list` against the real API."""

from __future__ import annotations

from tests.envhub.cli.conftest import Cli, MakeCli
from tests.factories.accounts import make_user
from tests.factories.registry import build_pair, create_ready_version, push_pair


def test_stars_are_counted_and_listed(cli: Cli, make_cli: MakeCli) -> None:
    for name in ("one", "two"):
        create_ready_version(cli.user, name)
    bob, name = make_cli(make_user("bob")), f"{cli.user.username}/two"
    assert "1 star" in bob("env", "star", name).stdout
    assert bob.json("env", "star", name)["stars"] == 1
    assert [row["name"] for row in bob.json("env", "list", "--starred")] == ["two"]
    assert [row["name"] for row in cli.json("env", "list", "--sort", "stars")] == ["two", "one"]
    assert bob.json("env", "unstar", name)["stars"] == 0


def test_the_address_of_a_page_is_a_name(cli: Cli) -> None:
    create_ready_version(cli.user, "six")
    page = f"https://hub.example/environments/{cli.user.username}/six"
    for address in (page, f"{page}/", f"{page}?tab=files#L1", f"{page}/versions/0.1.0", f"{page}/versions/0.1.0/files"):
        assert cli.json("env", "info", address)["environment"]["name"] == "six"
    assert "9.9" in cli("env", "info", f"{page}/versions/9.9", code=1).stderr
    assert "is not the name" in cli("env", "info", "https://hub.example/models/a/b", code=2).stderr


def test_a_moved_environment_is_reached_by_both_names_until_one_is_forgotten(cli: Cli, make_cli: MakeCli) -> None:
    create_ready_version(cli.user, "three")
    user = cli.user.username
    name = f"{user}/three"
    assert f"is now {user}/four" in cli("env", "move", name, "four").stdout
    assert cli.json("env", "info", name)["environment"]["name"] == "four"
    cli("env", "move", "four", "nobody/four", code=1)
    cli("env", "forget", name)
    cli("env", "info", name, code=1)


def test_an_environment_is_forked_by_who_may_see_it(cli: Cli, make_cli: MakeCli) -> None:
    create_ready_version(cli.user, "five")
    origin, bob = f"{cli.user.username}/five", make_cli(make_user("bob"))
    assert f"bob/mine is a fork of {origin}@0.1.0" in bob("env", "fork", f"{origin}@0.1.0", "mine").stdout
    assert bob.json("env", "info", "mine")["environment"]["forked_from"] == f"{origin}@0.1.0"
    bob("env", "fork", origin, f"{cli.user.username}/other", code=1)


def test_an_archived_environment_takes_nothing_until_it_is_taken_back(cli: Cli, make_cli: MakeCli) -> None:
    create_ready_version(cli.user)
    name = f"{cli.user.username}/tiny-env"
    make_cli(make_user("bob"))("env", "archive", name, code=1)
    cli("env", "archive", name)
    assert cli.json("env", "list") == []
    assert "archived" in cli("env", "set", name, "--description", "new", code=1).stderr
    cli("env", "unarchive", name)
    cli("env", "set", name, "--tags", "maths, easy")
    assert [row["tags"] for row in cli.json("env", "list", "--tag", "easy")] == [["maths", "easy"]]


def test_two_versions_are_compared(cli: Cli) -> None:
    create_ready_version(cli.user)
    push_pair(cli.user, build_pair(version="0.2.0", files={"notes.txt": "more\n"}))
    shown = cli("env", "diff", f"{cli.user.username}/tiny-env@0.1.0", "0.2.0")
    lines = shown.stdout.splitlines()
    assert {"added notes.txt", "+more"} < set(lines)
    same = cli("env", "diff", f"{cli.user.username}/tiny-env@0.1.0", "0.1.0")
    assert same.stdout == "0.1.0 and 0.1.0 are the same\n"
    assert "/diff?a=0.1.0&b=0.2.0" in shown.stderr
    cli("env", "diff", f"{cli.user.username}/tiny-env@0.1.0", "9", code=1)
