"""verifiers 0.1.8 and 0.1.9, whose rollouts return states, give the results of later releases."""

from __future__ import annotations

import pytest
from envhub.protocol.runner import Hello

from tests.envhub.runner.runner_process import RunnerProcess, group
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import Answer, PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.matrix]  # each release is a minute's installation


@pytest.mark.parametrize("release", ["0.1.9", "0.1.8"])
async def test_rollouts_are_scored_alone_and_in_groups(release: str) -> None:
    cut = lambda body: Answer("hel", finish_reason="length")  # noqa: E731
    async with PolicyEndpoint(answer=cut) as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("v0_words", env_args={"mode": "group"}), Hello)
        records = await runner.rollouts(group(endpoint.base_url, n=2, deadline_s=30))
    assert [record.failure for record in records] == [None, None]
    assert [record.reward for record in records] == [1.5, 1.25]
    assert [record.metrics["best"] for record in records] == [1.0, 0.5]
    assert [message["content"] for message in records[0].completion] == ["hel"]
    assert {(record.outcome.value, record.stop_condition) for record in records} == {("truncated", "max_turns_reached")}
