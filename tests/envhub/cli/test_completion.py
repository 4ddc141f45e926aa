"""Shells ask `hub` itself what may be typed next."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import httpx
import pytest
from django.core.wsgi import get_wsgi_application
from envhub.cli.main import app
from envhub.cli.terminal.session import Session
from typer._completion_classes import BashComplete
from typer.main import get_command

from tests.envhub.cli.conftest import Cli
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted
from tests.factories.registry import create_ready_version
from tests.factories.training_runs import create_run, training_request

HUB = [sys.executable, "-c", "import sys; sys.argv[0] = 'hub'; from envhub.cli import hub; hub()"]


def completed(line: str) -> list[str]:
    """What bash is told when somebody presses Tab at the end of a line."""
    environ = {**os.environ, "_HUB_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(HUB, env=environ, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hub ev", ["eval"]),
        ("hub eval le", ["leaderboard"]),
        ("hub eval list --mo", ["--model"]),
        ("hub completion ", ["bash", "zsh", "fish"]),
        ("hub run list --state que", ["queued"]),
        ("hub share ", ["create", "list", "revoke"]),
    ],
)
def test_commands_options_and_values_are_completed(line: str, expected: list[str]) -> None:
    assert completed(line) == expected


def offered(cli: Cli, line: str) -> list[str]:
    """The same in this process, beside the test's database."""
    transport = httpx.WSGITransport(get_wsgi_application())
    session = Session(transport=transport, environ=cli.environ, config_file=cli.config_file)
    *words, incomplete = line.split(" ")[1:]
    shell = BashComplete(get_command(app), {"obj": session}, "hub", "_HUB_COMPLETE")
    return [item.value for item in shell.get_completions(words, incomplete)]


def test_names_are_those_of_the_hub(cli: Cli) -> None:
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    for line in ("hub env info ", "hub env info al", "hub eval run alice/ti", "hub install alice/tiny"):
        assert offered(cli, line) == ["alice/tiny-env"]
    assert offered(cli, "hub env info alice/x") == []
    for line in ("hub eval run alice/tiny-env -m al", "hub model show ", "hub eval list --model alice/s"):
        assert offered(cli, line) == ["alice/stub"]


def test_ids_are_as_short_as_in_tables(cli: Cli) -> None:
    evaluation = create_hosted(cli.user)
    key, run = str(evaluation.pk), str(evaluation.run_id)
    assert offered(cli, "hub eval show ") == [key[:13]]
    assert offered(cli, f"hub eval show {key[:20]}") == [key]
    assert offered(cli, f"hub eval compare {key[:13]} {key[:4]}") == [key[:13]]
    assert run[:13] in [one[:13] for one in offered(cli, "hub run logs ")]
    training = create_run(cli.user, training_request(name="my-run"))
    assert set(offered(cli, "hub train show ")) == {"my-run", str(training.pk)[:13]}


def test_a_hub_that_is_away_offers_nothing_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_URL", "http://127.0.0.1:9")
    began = time.monotonic()
    assert completed("hub env info al") == []
    assert time.monotonic() - began < 10
    monkeypatch.setenv("HUB_URL", "no address")
    assert completed("hub eval show 01") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_hub(cli: Cli, shell: str) -> None:
    script = cli("completion", shell).stdout
    assert f"_HUB_COMPLETE=complete_{shell}" in script
    assert script.count("\n") < 20
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_another_shell_is_refused(cli: Cli) -> None:
    assert "is not one of" in cli("completion", "tcsh", code=2).stderr
