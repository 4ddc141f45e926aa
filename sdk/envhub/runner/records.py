"""Builds the normalised rollout record for envhub.protocol.evals.rollouts, without turns, which the interceptor has."""

from __future__ import annotations

import time
from typing import Any

from .adapters import Row
from .attempts import Attempt, Result
from .jsonable import to_json


def build(example: int, example_hash: str, row: Row | None, attempt: Attempt, result: Result) -> dict[str, Any]:
    """Build the record of one rollout. A failed one has no reward, whatever the library computed."""
    failed = result.failure is not None
    outcome = "failed" if failed else "truncated" if result.truncated else "ok"
    record: dict[str, Any] = {
        "example": example,
        "rollout": attempt.index,
        "example_hash": example_hash,
        "outcome": outcome,
        "reward": None if failed else result.reward,
        "metrics": result.metrics,
        "weights": result.weights,
        "advantage": None if failed else result.advantage,
        "failure": result.failure.to_json() if result.failure is not None else None,
        "stop_condition": result.stop_condition,
        "task": to_json(row.data) if row is not None else {},
        "prompt": result.prompt,
        "completion": result.completion,
        "usage": {"prompt_tokens": result.usage[0], "completion_tokens": result.usage[1]},
        "timing": {
            "total_s": round(time.monotonic() - attempt.started, 4),
            "generation_s": result.generation_s,
            "scoring_s": result.scoring_s,
        },
        "extras": result.extras,
        "library": result.library if isinstance(result.library, dict) else {},
    }
    return record


def frame(group_id: str, record: dict[str, Any], result: Result) -> dict[str, Any]:
    """Build the `rollout` frame."""
    steps = [] if result.failure is not None else [step.to_json() for step in result.steps]
    ids = list(result.response_ids)
    needs = [] if result.failure is None else [need.to_json() for need in result.failure.needs]
    told = {"response_ids": ids, "steps": steps, "agents": list(result.agents), "needs": needs}
    return {"type": "rollout", "id": group_id, "record": record, **told}
