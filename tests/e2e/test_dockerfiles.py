"""Task folders with Dockerfiles: pushed as they are, their images built when they are checked, used by rollouts."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from envhub.protocol.registry.packages import VersionState

from tests.e2e.package_runs import PACKAGES, calls, says
from tests.e2e.stack import Stack
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]  # minutes of apt and pip


def test_tests_of_a_task_score_in_the_image_of_its_dockerfile(stack: Stack) -> None:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-harbor"))
    assert version.state is VersionState.READY
    checks = {check.name: check for check in version.checks}
    assert all(check.passed for check in checks.values()), version.checks
    assert checks["images"].summary == "2 images of its Dockerfiles"
    endpoint = PolicyEndpoint(answer=says("42"))
    view = stack.cli("eval", "run", "e2e-harbor", "-m", stack.register(endpoint), "-n", "2", "-r", "1", "--json").json
    with stack.client() as hub:
        records = [hub.evaluations.rollout(view["id"], example, 0) for example in range(2)]
    assert [record.reward for record in records] == [1.0, 1.0], [(one.failure, one.sandboxes) for one in records]
    assert [len(record.turns) for record in records] == [1, 1]
    images = [record.sandboxes[0].image for record in records]
    assert images[0].startswith("hub/dockerfile:greet-")
    assert images[1] == "registry.example.org/e2e/named:20251031"


def test_tasks_of_the_current_generation_are_scored_where_each_wants_it(stack: Stack) -> None:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-harbor-tasks"))
    if version.state is VersionState.INVALID and "Python" in str(version.failure):
        pytest.skip("Harbor wants Python 3.12, which this host has not")
    assert all(check.passed for check in version.checks), version.checks
    endpoint = PolicyEndpoint(answer=calls("bash", {"command": "echo 42 > /tmp/answer"}))
    asked = ("-m", stack.register(endpoint), "-n", "2", "-r", "1", "--harness", '{"id": "bash"}', "--json")
    view = stack.cli("eval", "run", "e2e-harbor-tasks", *asked, code=None).json
    with stack.client() as hub:
        apart, greet = (hub.evaluations.rollout(view["id"], example, 0) for example in range(2))
    assert (apart.reward, greet.reward) == (1.0, 1.0), (apart.failure, greet.failure)
    assert (len(apart.sandboxes), len(greet.sandboxes)) == (2, 1)


def test_an_image_that_an_administrator_builds(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("from the folder")
    (tmp_path / "Other").write_text(
        "ARG FROM=python:3.11-slim\nFROM $FROM\nARG WHO=nobody\nENV MADE_FOR=$WHO\nWORKDIR /made\n"
        "COPY note.txt .\nRUN cat note.txt > copy && ln copy linked\n"
    )
    who = uuid4().hex  # else it is kept from the last time
    admin = stack.make_token("admin", "read,write,admin")
    command = ("image", "build", "e2e/made:1", str(tmp_path), "--everybody", "--file", "Other")
    command += ("--build-arg", f"WHO={who}")
    said = stack.cli(*command, HUB_TOKEN=admin)
    assert "step 5/5, line 7: RUN cat note.txt" in said.out
    assert said.out.rstrip().endswith("e2e/made:1: succeeded")
    shown = stack.cli("sandbox", "run", "--image", "e2e/made:1", "--", "sh", "-c", 'echo "$MADE_FOR"; pwd; cat linked')
    assert shown.out.splitlines() == [who, "/made", "from the folder"]
    (tmp_path / "Other").write_text("FROM python:3.11-slim\nRUN echo because; exit 5\n")
    failed = stack.cli(*command, HUB_TOKEN=admin, code=1)
    assert "line 2: RUN echo because; exit 5: it ended with status 5" in failed.err
    assert stack.cli(*command, code=None).code == 1  # nobody else may
