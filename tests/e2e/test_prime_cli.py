"""Prime's own command line, unmodified, with this hub: push, install, evaluate, push results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.runs import RunKind, RunState

from tests.e2e.stack import ROOT, Stack, answer_text
from tests.external_packages import python_with
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox]
SAVED = ROOT / "tests" / "envhub" / "packaging" / "saved" / "results-0.1.14"


@dataclass(frozen=True)
class Prime:
    """The command of one release, with a home of its own."""

    python: Path
    home: Path
    stack: Stack

    def __call__(self, *arguments: str, cwd: Path, code: int = 0) -> str:
        """What it printed; it must end with `code`."""
        address = f"{self.stack.url}/prime"
        own = {
            "HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # uv builds the wheel
            "PRIME_API_BASE_URL": address,
            "PRIME_FRONTEND_URL": address,
            "PRIME_TRACES_URL": address,
            "PRIME_INFERENCE_URL": f"{self.stack.url}/inference/v1",
            "PRIME_API_KEY": self.stack.token,
            "PRIME_DISABLE_VERSION_CHECK": "1",
            "VIRTUAL_ENV": str(self.python.parents[1]),
            "COLUMNS": "300",
        }
        command = [str(self.python.with_name("prime")), *arguments]
        environment = {**os.environ, **own}
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *arguments: str, cwd: Path) -> Any:
        return json.loads(self(*arguments, "--output", "json", cwd=cwd))


RELEASES = {"0.6.35": ["prime-sandboxes==0.2.42"], "0.18.0": []}  # the older does not load with what it allows today


@pytest.fixture(params=RELEASES)
def prime(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path) -> Prime:
    python = Path(python_with(f"prime=={request.param}", tmp_path, *RELEASES[request.param]))
    home = tmp_path / "home"
    home.mkdir()
    return Prime(python, home, stack.as_user(f"prime-{request.param.replace('.', '-')}"))


def test_what_people_do_with_prime_works_here(prime: Prime, tmp_path: Path) -> None:
    user, model = prime.stack.user, prime.stack.register(PolicyEndpoint(answer=answer_text("abcd")))
    assert user in prime("whoami", cwd=tmp_path)
    project = tmp_path / "reverse-text"
    shutil.copytree(ROOT / "environments" / "reverse-text", project, ignore=shutil.ignore_patterns("dist", "outputs"))
    name = f"{user}/reverse-text"
    assert f"Successfully pushed {name}" in prime("env", "push", cwd=project)
    assert "Successfully pushed" in prime("env", "push", cwd=project)  # the same again
    (project / "README.md").write_text("# Other words\n")
    assert "--auto-bump" in prime("env", "push", cwd=project, code=1)
    assert "Successfully pushed" in prime("env", "push", "--auto-bump", "--visibility", "PUBLIC", cwd=project)

    listed = prime.json("env", "list", "--owner", user, cwd=tmp_path)
    assert [row["environment"] for row in listed["environments"]] == [name]
    assert prime.json("env", "status", name, cwd=tmp_path)["latest_version"]["semantic_version"] == "0.1.1"
    prime("env", "pull", name, "--target", str(tmp_path / "pulled"), cwd=tmp_path)
    assert (tmp_path / "pulled" / "README.md").read_text() == "# Other words\n"
    assert f"Successfully installed {name}" in prime("env", "install", name, cwd=tmp_path)

    with prime.stack.client() as hub:
        prime.stack.wait_ready(hub.environments.version(name))
    hosted = prime("eval", "run", name, "--hosted", "-m", model, "-n", "2", "-r", "2", "--follow", cwd=tmp_path)
    assert "COMPLETED" in hosted
    shutil.copytree(SAVED, tmp_path / "results")
    assert "Success" in prime("eval", "push", "results", "--env", name, cwd=tmp_path)
    found = prime.json("eval", "list", cwd=tmp_path)["evaluations"]
    assert [(row["status"], row["is_hosted"], row["total_samples"]) for row in found] == [
        ("COMPLETED", False, 6),
        ("COMPLETED", True, 4),
    ]
    samples = prime.json("eval", "samples", found[1]["evaluation_id"], cwd=tmp_path)["samples"]
    assert {sample["completion"][0]["content"] for sample in samples} == {"abcd"}


def test_secrets_are_kept_and_what_there_is_not_is_said(prime: Prime, tmp_path: Path) -> None:
    made = prime.json("secret", "create", "-n", "SEARCH_KEY", "-v", "x", cwd=tmp_path)
    assert made["id"].endswith(".SEARCH_KEY")
    assert "SEARCH_KEY" in prime("secret", "list", cwd=tmp_path)
    assert "hub usage" in prime("wallet", cwd=tmp_path, code=1)


def test_an_image_is_built_and_a_sandbox_is_on_it(prime: Prime, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/said.txt").write_text("built here")
    (tmp_path / "app/Dockerfile").write_text("FROM hub/base\nCOPY said.txt /said.txt\nRUN cp /said.txt /again.txt\n")
    assert "/app:v1" in prime("images", "push", "app:v1", "--context", "app", cwd=tmp_path)
    with prime.stack.client() as hub:
        build = next(run for run in hub.runs.list() if run.kind is RunKind.IMAGE)
        *_, ended = hub.runs.watch(build.id)
        assert ended.state is RunState.SUCCEEDED, ended.failure
    (row,) = prime.json("images", "list", cwd=tmp_path)["data"]
    assert (row["status"], row["visibility"]) == ("COMPLETED", "PRIVATE")
    prime("sandbox", "create", row["displayRef"], "--yes", "--name", "on-it", cwd=tmp_path)
    (box,) = prime.json("sandbox", "list", cwd=tmp_path)["sandboxes"]
    assert "built here" in prime("sandbox", "run", box["id"], "--", "cat", "/again.txt", cwd=tmp_path)
    prime("sandbox", "delete", box["id"], "--yes", cwd=tmp_path)
    prime("images", "publish", "app:v1", cwd=tmp_path)
    prime("images", "delete", "app:v1", "--yes", cwd=tmp_path)
    assert prime.json("images", "list", cwd=tmp_path)["data"] == []


def test_a_sandbox_is_made_used_and_ended(prime: Prime, tmp_path: Path) -> None:
    prime("sandbox", "create", "hub/base", "--yes", "--name", "box", "--label", "e2e", cwd=tmp_path)
    (row,) = prime.json("sandbox", "list", cwd=tmp_path)["sandboxes"]
    box = row["id"]
    with prime.stack.client() as hub:
        assert hub.sandboxes.get(box).name == "box"
    assert "out 42" in prime(
        "sandbox", "run", box, "--", "sh", "-c", "echo out $((6 * 7)); exit 3", cwd=tmp_path, code=3
    )
    (tmp_path / "up").write_text("words" * 1000)
    prime("sandbox", "upload", box, "up", "/tmp/up", cwd=tmp_path)
    prime("sandbox", "download", box, "/tmp/up", "down", cwd=tmp_path)
    assert (tmp_path / "down").read_text() == "words" * 1000
    assert "hub sandbox shell" in prime("sandbox", "ssh", box, cwd=tmp_path, code=1)
    prime("sandbox", "delete", box, "--yes", cwd=tmp_path)
    assert prime.json("sandbox", "list", cwd=tmp_path)["sandboxes"] == []
