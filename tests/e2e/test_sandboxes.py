"""Environments whose rollouts need a computer: built, checked and evaluated unchanged, with the library's client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.registry.packages import VersionState, VersionView

from tests.e2e.package_runs import PACKAGES, Script, calls, says
from tests.e2e.stack import Stack
from tests.fakes.policy_endpoint import Answer, PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
QUESTION = "Which command writes 42 into /tmp/answer?"
COMMAND = f"""python3 - <<'END'
import json, os, subprocess, urllib.request
body = {{"model": "any", "messages": [{{"role": "user", "content": "{QUESTION}"}}]}}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(body).encode(), {{"Content-Type": "application/json"}})
command = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
subprocess.run(command, shell=True, check=True)
END
cat /tmp/answer; id -un"""


@pytest.fixture(scope="module")
def version(stack: Stack) -> VersionView:
    return stack.wait_ready(stack.push(PACKAGES / "e2e-sandbox"))


def rollout(stack: Stack, script: Script, **env_args: Any) -> RolloutRecord:
    model = stack.register(PolicyEndpoint(answer=script))
    arguments = ("--env-args", json.dumps(env_args)) if env_args else ()
    command = ("eval", "run", "e2e-sandbox", "-m", model, "-n", "1", "-r", "1", *arguments, "--json")
    view = stack.cli(*command, code=None).json  # 1 where no rollout was scored
    with stack.client() as hub:
        return hub.evaluations.rollout(view["id"], 0, 0)


def test_its_checks_are_green(version: VersionView) -> None:
    assert version.state is VersionState.READY
    assert not version.needs, version.checks
    assert all(check.passed for check in version.checks), version.checks


def test_a_shell_of_its_own_where_an_agent_calls_the_model(stack: Stack, version: VersionView) -> None:
    shell = calls("bash", {"command": COMMAND}, "it is 42")

    def answer(body: dict[str, Any]) -> Answer:
        return shell(body) if body.get("tools") else Answer("echo 42 > /tmp/answer")

    record = rollout(stack, answer)
    assert record.reward == 2.0, (record.failure, record.sandboxes)
    (sandbox,) = record.sandboxes
    assert (sandbox.image, sandbox.served_as, sandbox.state) == ("python:3.11-slim", "hub/base", "stopped")
    command = next(one for one in sandbox.commands if COMMAND in one.argv)
    assert (command.exit_code, command.output.split()) == (0, ["42", "root"])
    first, of_the_agent, last = record.turns
    assert first.started_s <= command.started_s <= of_the_agent.started_s <= last.started_s
    assert of_the_agent.request["messages"][0]["content"] == QUESTION
    assert of_the_agent.tokens is not None


def test_a_python_session_with_packages_that_it_installs(stack: Stack, version: VersionView) -> None:
    code = {"code": "import tinydb\nprint(tinydb.__name__, 6 * 7)"}
    record = rollout(stack, calls("python", code, "42"), kind="python", packages="tinydb")
    assert record.reward == 2.0, (record.failure, record.completion)


@pytest.mark.matrix
def test_an_image_that_cannot_be_had_is_named(stack: Stack, version: VersionView) -> None:
    record = rollout(stack, calls("bash", {"command": "true"}), image="ghcr.io/e2e/missing:1")
    assert record.failure is not None
    assert "ghcr.io/e2e/missing:1" in record.failure.message
    assert record.sandboxes[0].state == "failed"


@pytest.mark.matrix
def test_a_container_for_the_tasks_of_a_taskset_of_verifiers_0_2(stack: Stack) -> None:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-early-container"))
    assert all(check.passed for check in version.checks), version.checks
    model = stack.register(PolicyEndpoint(answer=says("42")))
    command = ("eval", "run", "e2e-early-container", "-m", model, "-n", "1", "-r", "1", "--json")
    with stack.client() as hub:
        record = hub.evaluations.rollout(stack.cli(*command, code=None).json["id"], 0, 0)
    assert record.reward == 1.0, (record.failure, record.sandboxes)
    assert [sandbox.state for sandbox in record.sandboxes] == ["stopped"]
