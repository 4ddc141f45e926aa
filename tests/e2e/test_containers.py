"""Environments that start containers of Docker: built, checked and evaluated unchanged, with no engine anywhere."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.registry.packages import VersionState, VersionView

from tests.e2e.package_runs import PACKAGES, Script, calls
from tests.e2e.stack import Stack
from tests.fakes.policy_endpoint import Answer, PolicyEndpoint

pytestmark = [pytest.mark.matrix, pytest.mark.verifiers, pytest.mark.sandbox]


@pytest.fixture(scope="module")
def version(stack: Stack) -> VersionView:
    return stack.wait_ready(stack.push(PACKAGES / "e2e-docker"))


def rollout(stack: Stack, script: Script, **env_args: Any) -> RolloutRecord:
    model = stack.register(PolicyEndpoint(answer=script))
    command = ("eval", "run", "e2e-docker", "-m", model, "-n", "1", "-r", "1", "--env-args", json.dumps(env_args))
    view = stack.cli(*command, "--json", code=None).json
    with stack.client() as hub:
        return hub.evaluations.rollout(view["id"], 0, 0)


def test_its_checks_are_green(version: VersionView) -> None:
    assert version.state is VersionState.READY
    assert not version.needs, version.checks


def test_a_rollout_has_the_container_that_the_docker_package_starts(stack: Stack, version: VersionView) -> None:
    record = rollout(stack, calls("run", {"command": "echo 42 > answer; pwd; id -un"}, "done"))
    assert record.reward == 1.0, (record.failure, record.completion)
    (sandbox,) = record.sandboxes
    assert (sandbox.image, sandbox.served_as, sandbox.state) == ("python:3.11-slim", "hub/base", "stopped")
    ran = next(one for one in sandbox.commands if "id -un" in one.argv[-1])
    assert (ran.exit_code, ran.output.split()) == (0, ["/tmp", "root"])


def test_an_image_that_cannot_be_had_is_named(stack: Stack, version: VersionView) -> None:
    record = rollout(stack, calls("run", {"command": "true"}, "done"), image="ghcr.io/e2e/missing:1")
    assert record.failure is not None
    assert "ghcr.io/e2e/missing:1" in record.failure.message


@pytest.mark.skipif(shutil.which("docker") is None, reason="a box has the programs of its host")
def test_a_rollout_has_the_container_that_the_command_line_starts(stack: Stack, version: VersionView) -> None:
    record = rollout(stack, lambda body: Answer("echo $((6 * 7))"), kind="command-line")
    assert record.reward == 1.0, (record.failure, record.completion)
