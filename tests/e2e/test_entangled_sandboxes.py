"""Rollouts that each have a sandbox, and wait for another that only one of them could give back."""

from __future__ import annotations

from pathlib import Path

import pytest
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.runs import RunState

from tests.e2e.package_runs import PACKAGES, calls
from tests.e2e.stack import running_stack
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]


def test_they_are_all_scored_in_the_end(tmp_path: Path) -> None:
    settings = {"WORKER_SANDBOXES_AT_ONCE": "2", "WORKER_SANDBOXES_MEMORY_MB": "100000"}
    with running_stack(tmp_path, settings) as stack:
        version = stack.wait_ready(stack.push(PACKAGES / "e2e-sandbox"))
        script = calls("bash", {"command": "echo 42 > /tmp/answer"}, "it is 42")
        view = stack.evaluate(
            EvaluationConfig(
                environment=f"{version.owner}/{version.name}", model=stack.register(PolicyEndpoint(answer=script)),
                num_examples=2, rollouts_per_example=2, concurrency=2, timeout_s=120, max_retries=5,
                env_args={"more": 1},
            )
        )  # fmt: skip
        ended = stack.finished(view.id)
        assert ended.state is RunState.SUCCEEDED, stack.log_tail()
        with stack.client() as hub:
            records = [hub.evaluations.rollout(view.id, example, rollout) for example in (0, 1) for rollout in (0, 1)]
        assert [record.reward for record in records] == [2.0] * 4, [record.failure for record in records]
        assert ended.run_id is not None
        assert "waited for each other" in stack.run_log(ended.run_id)
