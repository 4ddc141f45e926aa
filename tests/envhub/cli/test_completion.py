"""Shells ask `hub` itself what may be typed next."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.envhub.cli.conftest import Cli

HUB = [sys.executable, "-c", "import sys; sys.argv[0] = 'hub'; from envhub.cli import hub; hub()"]


def completed(line: str) -> list[str]:
    """What bash is told when somebody presses Tab at the end of a line."""
    environ = {**os.environ, "_HUB_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(HUB, env=environ, capture_output=True, text=True, check=True, timeout=60)
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_hub(cli: Cli, shell: str) -> None:
    script = cli("completion", shell).stdout
    assert f"_HUB_COMPLETE=complete_{shell}" in script
    assert script.count("\n") < 20
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_another_shell_is_refused(cli: Cli) -> None:
    assert "is not one of" in cli("completion", "tcsh", code=2).stderr
