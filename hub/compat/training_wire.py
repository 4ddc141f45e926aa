"""Converts training runs to the form that Prime's clients read, in the sections that `prime train` shows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from envhub.packaging.saved.results import to_row
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runs import Failure, RunState
from envhub.protocol.training.metrics import Histogram, StepMetrics
from envhub.protocol.training.runs import TOKENS_KEY, TrainingRunView

from hub.accounts.models import OwnerKind
from hub.catalog.capacity import Capacity
from hub.catalog.models import Model
from hub.compat.answers import printable
from hub.compat.names import page_url
from hub.training.models import Checkpoint, TrainingRollout, TrainingRun
from hub.training.queries import read_records
from hub.training.wire import training_views

_STATUS = {
    RunState.QUEUED: "QUEUED",
    RunState.LEASED: "PENDING",
    RunState.RUNNING: "RUNNING",
    RunState.SUCCEEDED: "COMPLETED",
    RunState.FAILED: "FAILED",
    RunState.CANCELLED: "STOPPED",
}
DISTRIBUTIONS = ("rewards", "advantages")  # fields of StepMetrics


def run_objects(rows: list[TrainingRun], *, now: datetime) -> list[JsonObject]:
    """Return runs of hub.training.queries, with as many queries as `training_views` makes."""
    return [_run(row, view) for row, view in zip(rows, training_views(rows, now=now), strict=True)]


def _run(row: TrainingRun, view: TrainingRunView) -> JsonObject:
    return {
        "id": view.id,
        "name": view.name or None,
        "userId": str(row.created_by_id),
        "teamId": row.owner.slug if row.owner.kind == OwnerKind.TEAM else None,
        "status": _STATUS[view.state],
        "kind": "SHARED_RFT_HOSTED",
        "baseModel": view.model,
        "environments": [_environment(reference) for reference in view.environments],
        "maxSteps": view.max_steps,
        **_configured(view.config),
        "queueReason": printable(view.waiting_for or "") or None,
        "errorMessage": _why(view.failure),
        "startedAt": _iso(view.started_at),
        "completedAt": _iso(view.finished_at),
        "createdAt": _iso(view.created_at),
        "updatedAt": _iso(last_change(view)),
    }


def _environment(reference: str) -> JsonObject:
    name, _, version = reference.partition("@")
    return {"slug": name, "id": name, "version": version}


def _configured(config: JsonObject) -> JsonObject:
    """Return the client's settings from a stored TrainingConfig, which follows the rules of its time."""
    wandb, trainer = config.get("wandb") or {}, config.get("trainer") or {}
    return {
        "batchSize": config.get("batch_size"),
        "rolloutsPerExample": config.get("rollouts_per_example"),
        "maxTokens": (config.get("sampling") or {}).get("max_tokens"),
        "seqLen": trainer.get("seq_len"),
        "loss": config.get("loss", "rl"),
        "learningRate": config.get("learning_rate"),
        "evalConfig": config.get("eval"),
        "valConfig": config.get("val"),
        "wandbEntity": wandb.get("entity"),
        "wandbProject": wandb.get("project"),
        "wandbRunName": wandb.get("name"),
    }


def _why(failure: Failure | None) -> str | None:
    if failure is None:
        return None
    return printable(f"{failure.message}. {failure.hint}" if failure.hint else failure.message)


def last_change(view: TrainingRunView) -> datetime:
    """Return when the run last changed."""
    stepped = view.latest.at if view.latest else None
    return max(moment for moment in (view.created_at, view.started_at, stepped, view.finished_at) if moment)


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def model_objects(rows: Iterable[Model], capacity: Capacity) -> list[JsonObject]:
    """Return models of the catalog; training is free here."""
    free = {f"{kind}PricePerMtok": 0 for kind in ("training", "inferenceInput", "inferenceOutput")}
    return [{"name": f"{row.owner.slug}/{row.name}", "atCapacity": not capacity.trains(row), **free} for row in rows]


def sample_objects(rows: Iterable[TrainingRollout]) -> list[JsonObject]:
    """Return rollouts with their step, as lines of results.jsonl plus training data, without the token view."""
    shown = list(rows)
    return [_sample(row, record) for row, record in zip(shown, read_records(shown), strict=True)]


def _sample(row: TrainingRollout, record: RolloutRecord) -> JsonObject:
    extras = {key: value for key, value in record.extras.items() if key != TOKENS_KEY}
    return to_row(record.model_copy(update={"extras": extras})) | {
        "step": row.step.step,
        "sample_id": row.index,
        "problem_id": row.example,
        "env_name": row.environment,
        "advantage": row.advantage,
        "in_batch": row.admitted,
        "left_out": row.dropped or None,
    }


def bins(metrics: StepMetrics, wanted: str) -> list[JsonObject]:
    """Return the bins of a step's histograms, or of the wanted one."""
    names = [wanted] if wanted else DISTRIBUTIONS
    return [one for name in names for one in _bins(name, getattr(metrics, name))]


def _bins(name: str, histogram: Histogram | None) -> list[JsonObject]:
    if histogram is None or not histogram.counts:
        return []
    width = (histogram.high - histogram.low) / len(histogram.counts)
    starts = [histogram.low + width * place for place in range(len(histogram.counts))]
    return [
        {"type": name, "start": start, "end": start + width, "count": count}
        for start, count in zip(starts, histogram.counts, strict=True)
    ]


def checkpoint_objects(rows: Iterable[Checkpoint]) -> list[JsonObject]:
    """Return checkpoints, which are ready as soon as they are stored. The address is that of the hub's own page."""
    return [_checkpoint(row) for row in rows]


def _checkpoint(row: Checkpoint) -> dict[str, Any]:
    made = row.created_at.isoformat()
    return {
        "id": str(row.pk),
        "rftRunId": str(row.training_id),
        "step": row.step,
        "storageUrl": page_url(f"training/{row.training_id}/weights"),
        "status": "READY",
        "sizeBytes": row.size,
        "createdAt": made,
        "uploadedAt": made,
    }
