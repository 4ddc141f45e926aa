"""What shares the sandbox of a rollout in the release that the BYO Harness documentation describes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.package_runs import PACKAGES
from tests.e2e.stack import Stack
from tests.fakes.policy_endpoint import Answer, PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]


def writes_or_reads(body: dict[str, Any]) -> Answer:
    """A model that writes the file, or where it shall read it, says what is in it."""
    told = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    asked = next(str(message["content"]) for message in body["messages"] if message["role"] == "user")
    reads = asked.startswith("Read")
    if told:
        return Answer(f"It has {told[-1]}." if reads else "It is written.")
    command = "cat /tmp/answer" if reads else "printf 42 > /tmp/answer"
    return Answer("", tool_calls=(("shell", json.dumps({"command": command})),))


def test_a_loop_in_a_sandbox_its_tool_and_the_harnesses_after_it_share_that_sandbox(stack: Stack) -> None:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-shared-sandbox"))
    assert all(check.passed for check in version.checks), version.checks
    model = stack.register(PolicyEndpoint(answer=writes_or_reads))
    view = stack.cli("eval", "run", "e2e-shared-sandbox", "-m", model, "-n", "1", "-r", "1", "--json", code=None).json
    with stack.client() as hub:
        record = hub.evaluations.rollout(view["id"], 0, 0)
    assert record.reward == 1.0, (record.failure, record.sandboxes)
    assert record.metrics["seen"] == 2.0
    assert [sandbox.state for sandbox in record.sandboxes] == ["stopped"]
    assert len(record.turns) == 8  # two of the loop, and of each of three harnesses
