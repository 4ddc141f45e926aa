"""A legacy environment's rollouts may speak Anthropic's dialect, over the runner's shared connections."""

from __future__ import annotations

import pytest
from envhub.protocol.runner import Hello, Policy

from tests.envhub.runner.runner_process import RunnerProcess, group
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = pytest.mark.verifiers


async def test_a_rollout_reaches_the_messages_route() -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of("0.1.14")) as runner:
        assert isinstance(await runner.load("v0_words"), Hello)
        policy = Policy(base_url=endpoint.base_url, model="stub", client_type="anthropic_messages")
        (record,) = await runner.rollouts(group(endpoint.base_url, policy=policy))
    assert (record.failure, [seen.path for seen in endpoint.requests]) == (None, ["/v1/messages"])
