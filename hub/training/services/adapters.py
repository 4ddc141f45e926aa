"""Adds what a run has trained to the catalog as `owner/name`: a LoRA adapter over its base, or a whole model."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction
from django.db.models import ProtectedError, QuerySet
from envhub.protocol.training.runs import AdapterReport
from envhub.protocol.training.trainer import TrainingMode
from envhub.protocol.visibility import Visibility

from hub.accounts.services import system_owner
from hub.catalog.models import Model
from hub.catalog.services import register_adapter, register_local
from hub.storage.services import confirm_blob
from hub.training.models import Adapter, TrainingRun
from hub.training.services.checkpoints import checked_path
from hub.training.services.lifecycle import locked
from hub.training.services.policy_models import base_of, require_unchanged
from hub.training.services.steps import Guard


def report_adapter(*, training: TrainingRun, report: AdapterReport, guard: Guard) -> Adapter:
    """Add the weights of a step to the catalog, or return them if they are there.

    Raises Invalid, Conflict, StaleAttempt.
    """
    blobs = {checked_path(path): confirm_blob(sha, holder=training.owner_id) for path, sha in report.files.items()}
    size = sum(blob.size for blob in blobs.values())
    with transaction.atomic():
        guard()
        row = locked(training)
        known = Adapter.objects.filter(training=row, step=report.step).select_related("model__owner").first()
        if known is not None and dict(known.model.files.values_list("path", "blob_id")) == dict(report.files):
            return known
        name = known.model.name if known is not None and not _is_trained_on(known.model) else _name(row, report)
        model = _register(row, name, report, report.files)
        values = {
            "model": model,
            "mode": report.mode.value,
            "base_name": row.model_name,
            "rank": report.rank,
            "alpha": report.alpha,
            "size": size,
            "reward_mean": report.reward_mean,
            "final": report.final,
        }
        adapter, _ = Adapter.objects.update_or_create(training=row, step=report.step, defaults=values)
        _drop_old(row, kept=adapter)
    return adapter


def _register(training: TrainingRun, name: str, report: AdapterReport, files: Mapping[str, str]) -> Model:
    visibility = Visibility(training.visibility)
    if report.mode is TrainingMode.FULL:
        return register_local(
            owner=training.owner, name=name, engine=training.engine, files=files, visibility=visibility
        )
    require_unchanged(training)
    base = base_of(training, system_owner())
    return register_adapter(owner=training.owner, name=name, base=base, files=files, visibility=visibility)


def _is_trained_on(model: Model) -> bool:
    """Return whether a run that goes on began from these weights, so that they stay as they are."""
    return model.training_runs.filter(finished_at=None).exists()


def _name(training: TrainingRun, report: AdapterReport) -> str:
    """Return a free name: the run's own for its final weights, else that of the step."""
    name = training.adapter_name if report.final else f"{training.adapter_name}-step-{report.step}"
    unique = f"{name}-{training.pk.hex[-6:]}"
    names = [name, unique, *(f"{unique}-{number}" for number in range(2, 100))]
    taken = set(Model.objects.filter(owner=training.owner, name__in=names).values_list("name", flat=True))
    return next(one for one in names if one not in taken)


def _drop_old(training: TrainingRun, *, kept: Adapter) -> None:
    """Remove the oldest adapters that nothing refers to."""
    number = training.config["adapters"]["keep_last"]
    if number < 0:
        return
    rows = Adapter.objects.filter(training=training, final=False).exclude(pk=kept.pk)
    drop_adapters(rows.order_by("-step")[max(0, number - 1) :])


def drop_adapters(rows: QuerySet[Adapter]) -> None:
    """Remove adapters from the catalog, except those that something refers to."""
    for old in rows.select_related("model"):
        try:
            with transaction.atomic():
                old.model.delete()
        except ProtectedError:  # a deployment serves it, or a training run began from it
            continue
