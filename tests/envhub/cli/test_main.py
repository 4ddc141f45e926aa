from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from envhub.cli.main import COMMANDS
from envhub.cli.terminal.session import Session, cell, printable
from envhub.errors import UsageError
from envhub.protocol.registry.packages import EnvironmentPatch

from hub.registry.services import patch_environment
from tests.envhub.cli.conftest import Cli
from tests.factories.registry import create_environments

PATHS = [
    *([name] for name, entry in COMMANDS.items() if isinstance(entry, str)),
    *([name, part] for name, entry in COMMANDS.items() if not isinstance(entry, str) for part in entry if part),
]


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_exists_and_has_json(cli: Cli, path: list[str]) -> None:
    assert "--json" in cli(*path, "--help").stdout


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_an_owner_may_be_called_a_team_everywhere(cli: Cli, path: list[str]) -> None:
    said = cli(*path, "--help").stdout
    assert ("--owner" in said) == ("--team" in said)


def test_help_keeps_brackets_and_whole_sentences(cli: Cli) -> None:
    assert "[owner/]name[@version]" in cli("install", "--help").stdout
    listed = " ".join(cli("--help").stdout.split())
    assert "Push a package as a new version of its environment, and wait until it is ready." in listed


@pytest.mark.parametrize("path", [path for path in PATHS if path[-1] == "delete"], ids=" ".join)
def test_what_deletes_can_be_told_not_to_ask(cli: Cli, path: list[str]) -> None:
    assert "--yes" in cli(*path, "--help").stdout


def test_an_unknown_command_and_a_missing_argument_exit_2(cli: Cli) -> None:
    cli("nope", code=2)
    cli("eval", "nope", code=2)
    cli("env", "info", code=2)


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["rl", "run", "x.toml"], "hub train"), (["secrets", "list"], "hub secret"), (["env", "pus"], "hub env push"),
     (["eval", "samples", "x"], "hub eval rollouts"), (["train", "get", "x"], "hub train show")],
)  # fmt: skip
def test_an_unknown_command_is_told_with_the_one_that_was_meant(cli: Cli, words: list[str], meant: str) -> None:
    assert f"Did you mean `{meant}`?" in " ".join(cli(*words, code=2).stderr.split())


@pytest.mark.parametrize(
    ("words", "field"),
    [(["model", "add", "GPT-4o", "--base-url", "https://models.example/v1"], "name"),
     (["model", "add", "gpt", "--base-url", "https://models.example/v1", "--timeout", "0"], "timeout_s"),
     (["deploy", "create", "a/b", "--idle", "1"], "idle_seconds"),
     (["token", "create", "ci", "--days", "4000"], "expires_in_days"),
     (["user", "invite", "Bob"], "name")],
)  # fmt: skip
def test_a_value_that_no_request_takes_is_a_usage_error_that_names_it(cli: Cli, words: list[str], field: str) -> None:
    assert f"  {field}: " in cli(*words, code=2).stderr
    assert field in json.loads(cli(*words, "--json", code=2).stderr)["error"]["fields"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [(["show"], "missing argument 'evaluation_id'"), (["list", "--nope"], "no such option: --nope"),
     (["run", "my-env", "--split", "test"], "invalid value for '--split': 'test' is not one of 'eval', 'train'")],
)  # fmt: skip
def test_a_line_that_is_not_understood_is_told_as_every_other_error(cli: Cli, words: list[str], problem: str) -> None:
    assert f"error: {problem}" in cli("eval", *words, code=2).stderr
    told = json.loads(cli("eval", *words, "--json", code=2).stderr)["error"]
    assert told["message"].startswith(problem)
    assert told["hint"] == f"`hub eval {words[0]} --help`"


def test_a_wrong_option_of_hub_itself_is_told_as_every_other_error(cli: Cli) -> None:
    assert cli("--zzz", code=2).stderr == "error: no such option: --zzz\nhint: `hub --help`\n"
    assert json.loads(cli("--zzz", "--json", code=2).stderr)["error"]["message"] == "no such option: --zzz"


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(cli: Cli) -> None:
    Path("taken").write_text("")
    assert "error: taken/my-env: Not a directory" in cli("init", "my-env", "--path", "taken", code=1).stderr


def test_a_token_that_no_header_can_hold_is_a_usage_error(cli: Cli) -> None:
    cli.environ["HUB_TOKEN"] = "hub_abc\N{HORIZONTAL ELLIPSIS}"
    assert "is not a hub's token" in cli("whoami", code=2).stderr
    assert "hub's token" in cli("login", "http://127.0.0.1:8000", "--token", "hub_\N{NO-BREAK SPACE}", code=2).stderr


def test_an_unknown_command_that_resembles_none_leads_to_the_list(cli: Cli) -> None:
    assert "`hub eval --help` lists the commands" in " ".join(cli("eval", "xyzzy", code=2).stderr.split())


def test_a_light_command_does_not_import_heavy_modules() -> None:
    heavy = "('pyarrow', 'hatchling')"
    code = f"import sys, envhub.cli.main, envhub.cli.login; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_terminal_that_lacks_a_character_is_shown_another_and_json_stays_whole(cli: Cli) -> None:
    (environment,) = create_environments(cli.user.owner, 1)
    patch = EnvironmentPatch(description="\N{GREEK SMALL LETTER PI} to \N{INFINITY}")
    patch_environment(environment=environment, patch=patch)
    assert "? to ?" in cli("env", "list", charset="ascii").stdout
    shown = cli("env", "list", "--json", charset="ascii").stdout
    assert json.loads(shown)[0]["description"] == patch.description


def test_control_characters_never_reach_a_terminal() -> None:
    assert printable("a\x1b]0;title\x07b\x9b31m\tc\n") == "a]0;titleb31m\tc\n"


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_moment_is_shown_on_the_readers_clock() -> None:
    assert cell(datetime(2026, 1, 1, 20, 0, tzinfo=UTC)) == "2026-01-02 05:00"


def test_a_hub_that_is_away_is_told_once_while_it_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[httpx.Response | Exception] = [httpx.ConnectError("refused"), httpx.ConnectError("refused")]
    answers.append(httpx.Response(200, json={"user": "alice", "owners": ["alice"], "scopes": []}))

    def answer(request: httpx.Request) -> httpx.Response:
        if isinstance(next_one := answers.pop(0), Exception):
            raise next_one
        return next_one

    with Session(transport=httpx.MockTransport(answer)).connect("http://hub.test", None) as hub:
        assert hub.accounts.me().user == "alice"
    assert capsys.readouterr().err == "cannot reach http://hub.test: refused; trying again\n"


def test_a_field_is_told_unless_the_message_ends_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    Session().fail(UsageError("row 3: too long; at most 512", fields={"rows.3": "too long; at most 512", "size": "5"}))
    assert capsys.readouterr().err == "error: row 3: too long; at most 512\n  size: 5\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("eval", "run", "nosuch.toml"), "[[eval]] tables"),
        (("model", "import-dir", "m", "."), "has no files"),
        (("user", "invite", "Bad Name"), "a-z, 0-9 and dashes"),
        (("env", "set", "tiny-env"), "--visibility"),
    ],
)
def test_a_wrong_command_line_says_what_to_write(cli: Cli, command: tuple[str, ...], says: str) -> None:
    assert says in cli(*command, code=2).stderr


def test_an_address_without_its_protocol_is_refused_at_once(cli: Cli) -> None:
    cli.environ["HUB_URL"] = "127.0.0.1:8000"
    assert "http://host:port" in cli("env", "list", code=2).stderr


@pytest.mark.parametrize("command", ["env", "eval", "train", "model"])
def test_who_is_not_logged_in_is_told_why_a_list_is_empty(cli: Cli, command: str) -> None:
    del cli.environ["HUB_TOKEN"]
    assert "hub login" in cli(command, "list").stderr
