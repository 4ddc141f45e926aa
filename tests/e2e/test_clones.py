"""A sandbox clones parts of repositories and installs from them, as the hub's operator lets it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.endpoints import in_thread
from tests.e2e.stack import Stack, running_stack
from tests.workers.git_server import GitServer

pytestmark = [pytest.mark.sandbox, pytest.mark.matrix]
PYPROJECT = (
    '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n[project]\nname = "lib"\n'
)
COMMANDS = {
    "shallow": "git clone -q --depth 1 https://git.example.org/lib /tmp/a && cat /tmp/a/word.py",
    "partial": "git clone -q --filter=blob:none https://git.example.org/lib.git /tmp/b && cat /tmp/b/word.py",
    "pip": "pip install -q --no-build-isolation git+https://git.example.org/lib@v1 && python3 -c 'import word'",
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A hub that lets one host's repositories through, which a git server here stands in for."""
    sources: Path = tmp_path_factory.mktemp("sources")
    server = GitServer(sources)
    server.commit("lib", {"word.py": "print('one')\n", "pyproject.toml": PYPROJECT}, tag="v1")
    server.commit("lib", {"word.py": "print('one')\n# two\n"})
    with in_thread(server.serve()) as serving:
        mirrors = {
            "https://git.example.org/lib.git": f"{serving.url}/lib",
            "https://git.example.org/lib": f"{serving.url}/lib",
        }
        settings = {"HUB_CLONE_HOSTS": '["git.example.org"]', "HUB_GIT_MIRRORS": json.dumps(mirrors)}
        with running_stack(tmp_path_factory.mktemp("hub"), settings) as running:
            yield running


def test_a_sandbox_clones_and_installs_from_a_repository(stack: Stack) -> None:
    sandbox = stack.cli("sandbox", "create", "--timeout", "300").out.strip()
    told = {name: stack.cli("sandbox", "exec", sandbox, "--", "sh", "-c", how) for name, how in COMMANDS.items()}
    assert {name: one.out.splitlines()[0] for name, one in told.items()} == {
        "shallow": "print('one')",
        "partial": "print('one')",
        "pip": "one",
    }
    refused = "git clone -q --depth 1 https://git.example.net/lib /tmp/c"
    closed = stack.cli("sandbox", "exec", sandbox, "--", "sh", "-c", refused, code=128)
    assert "git.example.net" in closed.err
