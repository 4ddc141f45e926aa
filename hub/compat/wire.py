"""Converts evaluations and rollouts to the form that Prime's clients read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envhub.packaging.saved.results import to_row
from envhub.protocol.runs import RunState

from hub.compat.answers import printable
from hub.compat.names import page_url
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.queries import read_records
from hub.evals.wire import evaluation_summary

_STATUS = {
    RunState.QUEUED: "PENDING",
    RunState.LEASED: "PENDING",
    RunState.RUNNING: "RUNNING",
    RunState.SUCCEEDED: "COMPLETED",
    RunState.FAILED: "FAILED",
    RunState.CANCELLED: "CANCELLED",
}


def evaluation_object(row: Evaluation) -> dict[str, Any]:
    """Return an evaluation; the relations that hub.evals.queries loads must be loaded."""
    summary = evaluation_summary(row)
    environment = f"{row.environment.owner.slug}/{row.environment.name}"
    told = ("num_examples", "rollouts_per_example", "env_args", "sampling")
    metrics = {metric.name: metric.mean for metric in summary.metrics}
    return {
        "evaluation_id": str(row.pk),
        "id": str(row.pk),
        "name": row.name,
        "environment_names": [environment],
        "model_name": row.model_name,
        "status": _STATUS[RunState(row.state)],
        "error_message": _why(row),
        "is_hosted": row.is_hosted,
        "is_public": row.visibility == "public",
        "metadata": {key: row.config.get(key) for key in told},
        "metrics": metrics | ({"reward": summary.reward.mean} if summary.reward else {}),
        "total_samples": summary.stored,
        "viewer_url": viewer_url(row),
        "created_at": row.created_at.isoformat(),
        "completed_at": row.finished_at.isoformat() if row.finished_at else None,
    }


def _why(row: Evaluation) -> str | None:
    if row.run is None:
        told = row.push_metadata.get("error_message")
        return printable(str(told)) if told else None
    failure = row.run.failure or {}
    words = "; ".join(failure[part] for part in ("message", "hint") if failure.get(part))
    return printable(words) or None


def viewer_url(row: Evaluation) -> str:
    """Return the address of an evaluation's page."""
    return page_url(f"evaluations/{row.pk}")


def sample_objects(rows: Sequence[RolloutIndex]) -> list[dict[str, Any]]:
    """Return rollouts as lines of results.jsonl, with their numbers."""
    return [
        to_row(record) | {"sample_id": f"{row.example}-{row.rollout}", "rollout_number": row.rollout + 1}
        for row, record in zip(rows, read_records(rows), strict=True)
    ]
