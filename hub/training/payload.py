"""Builds the payload of a training run: what its worker is given at each claim, according to the current state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from envhub.protocol.base import BlobRef
from envhub.protocol.registry.packages import GenerationEvidence
from envhub.protocol.training.config import TRAINER_SECRETS, TrainingConfig
from envhub.protocol.training.environment import EnvironmentTable
from envhub.protocol.training.runs import EvalTarget, PolicyTarget, ResumeState, StoredFiles, TrainPayload, TrainTarget

from hub.catalog.targets import outbound_policy
from hub.catalog.wire import files_target
from hub.core.errors import NotFound
from hub.registry.check_settings import is_untried
from hub.registry.models import Version
from hub.registry.readiness import reference_of, require_built
from hub.registry.wire import lock_for_payload
from hub.runs.judges import judge_targets
from hub.runs.models import Run
from hub.secrets.services import decrypt, reveal_for_run
from hub.storage.queries import presign_get
from hub.training.models import Checkpoint, TrainingRun, Use
from hub.training.queries import newest_checkpoint
from hub.training.services.creating import stored_config, tables
from hub.training.services.policy_models import require_unchanged

WEIGHTS = "weights/"  # the checkpoint's files that a warm start needs


def train_payload(run: Run) -> TrainPayload:
    """`RunKindSpec.payload`. Raises HubError if a judge, a secret or an environment was deleted after the start."""
    rows = TrainingRun.objects.select_related("owner", "model__owner", "model__base__owner", "warm_start")
    training = rows.filter(run=run).first()
    if training is None:
        raise NotFound("the training run has been deleted", hint="start a new one")
    config = stored_config(training)
    granted = granted_secrets(training, config)
    pinned = {(row.use, row.position): row.version for row in _pinned(training)}
    targets: dict[Use, list[dict[str, Any]]] = {Use.TRAIN: [], Use.EVAL: []}
    for use, place, table in tables(config):
        targets[use].append(_target(run, config, table, pinned[use.value, place], granted))
    newest = newest_checkpoint(training)
    warm = training.warm_start if newest is None else None
    if config.checkpoint_id and newest is None and warm is None:
        raise NotFound(
            f"the checkpoint {config.checkpoint_id}, from which the run was to begin, has been deleted by its owner",
            hint="start a new run from another checkpoint, or without one",
        )
    return TrainPayload(
        training_id=str(training.pk),
        config=config,
        model=policy_target(training),
        environments=tuple(TrainTarget(**fields) for fields in targets[Use.TRAIN]),
        evaluations=tuple(EvalTarget(**fields) for fields in targets[Use.EVAL]),
        secrets={name: value for name, value in granted.items() if name in TRAINER_SECRETS},
        resume=resume_state(newest) if newest else None,
        warm_start=StoredFiles(files=stored_files(warm, only=WEIGHTS)) if warm else None,
        reported_steps=training.step,
        gpus=run.gpus,
        data_url=f"{str(settings.HUB.base_url).rstrip('/')}/hf",
        outbound=outbound_policy(),
    )


def granted_secrets(training: TrainingRun, config: TrainingConfig) -> dict[str, str]:
    """Return all secrets of the run; those sent with it override stored ones of the same name. Raises Invalid."""
    sent: dict[str, str] = json.loads(decrypt(training.encrypted_env)) if training.encrypted_env else {}
    names = {*config.secrets, *(name for _, _, table in tables(config) for name in table.secrets)}
    return reveal_for_run(training.owner, names - sent.keys()) | sent


def box_secrets(training_env: Iterable[str], config: TrainingConfig, table: EnvironmentTable) -> set[str]:
    """Return the names of secrets for an environment's box: granted to it or to the run, or sent with the run."""
    return {*config.secrets_of(table), *training_env} - TRAINER_SECRETS


def policy_target(training: TrainingRun) -> PolicyTarget:
    """Return where the worker gets the model. Raises Conflict if its files are no longer those of the submission."""
    require_unchanged(training)
    model = training.model
    if model is None:
        return PolicyTarget(
            reference=training.model_name,
            repository=training.repository,
            revision=training.revision,
            engine=training.engine,
        )
    return PolicyTarget(
        reference=training.model_name,
        base=files_target(model.base or model),
        adapter=files_target(model) if model.base else None,
        engine=training.engine,
    )


def resume_state(checkpoint: Checkpoint) -> ResumeState:
    """Return a checkpoint with presigned URLs."""
    return ResumeState(checkpoint_id=str(checkpoint.pk), step=checkpoint.step, files=stored_files(checkpoint))


def stored_files(checkpoint: Checkpoint, *, only: str = "") -> dict[str, BlobRef]:
    """Return the files whose paths begin with `only`, with presigned URLs."""
    rows = checkpoint.files.select_related("blob").filter(path__startswith=only)
    return {
        row.path: BlobRef(
            sha256=row.blob_id,
            size=row.blob.size,
            url=presign_get(row.blob_id, filename=row.path.rpartition("/")[2]),
        )
        for row in rows
    }


def _pinned(training: TrainingRun) -> Any:
    return training.versions.select_related("version__environment__owner")


def _target(
    run: Run, config: TrainingConfig, table: EnvironmentTable, version: Version, granted: Mapping[str, str]
) -> dict[str, Any]:
    require_built(version)
    named = {*config.secrets, *(name for _, _, every in tables(config) for name in every.secrets)}
    sent = granted.keys() - named
    inside = box_secrets(sent, config, table)
    return {
        "label": table.label,
        "environment": reference_of(version),
        "env_id": version.project,
        "module": version.module,
        "evidence": GenerationEvidence.model_validate(version.evidence),
        "lock": lock_for_payload(version),
        "secrets": {name: granted[name] for name in sorted(inside)},
        "judges": judge_targets(run.created_by, table.judges, run.owner_id),
        "tries_harness": is_untried(table.harness, version),
        "config": table,
    }
