"""A host that a starter grants within what the operator allows is reached from the box; all else is said clearly."""

from __future__ import annotations

import json

import pytest
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.registry.packages import VersionState

from tests.e2e.operators_server import WORD
from tests.e2e.package_runs import PACKAGES
from tests.e2e.stack import Stack, answer_text
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.xdist_group("e2e")]


@pytest.fixture(scope="module")
def server(permitted_host: str) -> str:
    """host:port that this hub's operator allows, and nothing else."""
    return permitted_host or pytest.skip("this machine has no address but loopback")


@pytest.fixture(scope="module")
def environment(stack: Stack, server: str) -> str:
    """It fetches its answers."""
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-fetch"))
    assert version.state is VersionState.READY, version.failure
    return f"{version.owner}/{version.name}"


@pytest.fixture(scope="module")
def model(stack: Stack) -> str:
    """A model that knows the word."""
    return stack.register(PolicyEndpoint(answer=answer_text(WORD)))


def arguments(environment: str, model: str, server: str) -> tuple[str, ...]:
    args = json.dumps({"address": f"http://{server}/word"})
    return ("eval", "run", environment, "-m", model, "-n", "1", "-r", "2", "--env-args", args, "--json")


def test_a_granted_host_is_reached_from_the_box(stack: Stack, environment: str, model: str, server: str) -> None:
    view = stack.cli(*arguments(environment, model, server), "--allow-host", server).json
    assert [row.reward for row in stack.rollouts(view["id"])] == [1.0, 1.0]


def test_without_the_grant_the_failure_says_what_to_do(stack: Stack, environment: str, model: str, server: str) -> None:
    view = stack.cli(*arguments(environment, model, server), code=None).json
    rows = stack.rollouts(view["id"])
    assert {(row.outcome, row.reward) for row in rows} == {(Outcome.FAILED, None)}
    assert all("--allow-host" in row.failure_message for row in rows), rows


def test_a_host_that_the_operator_does_not_allow_is_refused_at_once(
    stack: Stack, environment: str, model: str, server: str
) -> None:
    refused = stack.cli(*arguments(environment, model, server), "--allow-host", "example.org:80", code=1)
    assert "example.org:80" in refused.err
    assert "HUB_BOX_ALLOW_HOSTS" in refused.err
