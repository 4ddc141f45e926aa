"""What a hostile runner says of a rollout never breaks the segment and the index rows that it shares with others."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import positions, read_segment, write_segment
from envhub.protocol.evals.evaluations import SegmentRequest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, Usage
from envhub.protocol.registry.packages import Generation
from envhub.protocol.runner import EVENTS, RolloutDone
from envhub.protocol.runs import FailureKind

from workers.rollouts.joining import join


def joined(**said: Any) -> RolloutRecord:
    record = {"example": 0, "rollout": 0, "example_hash": "a" * 64, "outcome": "ok", "reward": 1.0, **said}
    done = EVENTS.validate_json(json.dumps({"type": "rollout", "id": "g", "record": record}))
    assert isinstance(done, RolloutDone)
    return join(done, [], [], generation=Generation.LEGACY, judge_usage=Usage())


@pytest.mark.parametrize(
    "said",
    [
        {"usage": {"prompt_tokens": 10**30, "completion_tokens": -5}},
        {"timing": {"total_s": float("inf"), "scoring_s": float("nan"), "generation_s": -1e300}},
        {"example_hash": "z" * 1000},
        {"example_hash": "\x00"},
        {"advantage": float("nan")},
        {"metrics": {"a": float("nan"), "b\x00": 1e300}, "weights": {"a": float("inf")}},
        {"failure": {"kind": "policy", "type": "X", "message": "\x00"}},
        {"outcome": "failed"},
    ],
)
def test_odd_values_are_made_storable(said: dict[str, Any]) -> None:
    record = joined(**said)
    content = write_segment([record])
    assert len(list(read_segment(io.BytesIO(content)))) == 1
    request = SegmentRequest(sha256="0" * 64, size=1, rows=index_rows([record], positions(content)))
    (row,) = SegmentRequest.model_validate_json(request.model_dump_json()).rows
    assert row.duration_s >= 0
    assert 0 <= row.usage.completion_tokens <= row.usage.prompt_tokens < 2**53
    assert len(row.example_hash) in {0, 64}
    assert (row.outcome is Outcome.FAILED) == (row.failure_kind is not None) == (row.reward is None)


@pytest.mark.parametrize("reward", [float("nan"), float("-inf"), 1e300])
def test_a_reward_that_no_mean_can_hold_is_the_verifiers_failure(reward: float) -> None:
    record = joined(reward=reward)
    assert (record.outcome, record.reward) == (Outcome.FAILED, None)
    assert record.failure is not None
    assert (record.failure.kind, record.failure.message) == (FailureKind.VERIFIER, f"the reward is {reward}")


def test_metrics_and_advantages_that_no_mean_can_hold_are_left_out() -> None:
    record = joined(metrics={"a": float("nan"), "b": 1e300, "c": 0.5}, advantage=1e300)
    assert (record.metrics, record.advantage, record.reward) == ({"c": 0.5}, None, 1.0)


def test_ordinary_values_stay_as_they_are() -> None:
    record = joined(usage={"prompt_tokens": 7, "completion_tokens": 3}, advantage=-0.5, timing={"total_s": 1.5})
    assert (record.usage.prompt_tokens, record.advantage, record.timing.total_s) == (7, -0.5, 1.5)
    assert (record.outcome, record.reward, record.example_hash) == (Outcome.OK, 1.0, "a" * 64)
