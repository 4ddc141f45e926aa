"""Training runs in the hub, and what their workers report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import positions, write_segment
from envhub.protocol.base import Json
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import (
    AdapterReport,
    BeginningReport,
    CheckpointReport,
    EvaluationReport,
    RolloutTokens,
    StepReport,
    StepSegment,
    TokenTraining,
    TrainingIndexRow,
    TrainingRequest,
)
from envhub.protocol.training.trainer import LORA_TARGETS, TrainingMode
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, User
from hub.catalog.models import Model
from hub.catalog.services import register_local
from hub.runs.models import Run
from hub.training.models import TrainingRun
from hub.training.services import (
    create_training,
    report_adapter,
    report_beginning,
    report_checkpoint,
    report_evaluation,
    report_step,
)
from tests.factories.accounts import make_user
from tests.factories.evals import make_record
from tests.factories.registry import create_ready_version
from tests.factories.runs import hold_run
from tests.factories.storage import make_blob

SHAPE = {
    "hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "num_hidden_layers": 2,
    "intermediate_size": 384, "vocab_size": 128,
}  # fmt: skip


def create_trainable(owner: Owner, name: str = "base", *, public: bool = False, **shape: int) -> Model:
    """A model directory of the catalog; tiny unless `shape` says otherwise."""
    files = {
        "config.json": make_blob(json.dumps(SHAPE | shape).encode()).sha256,
        "model.safetensors": make_blob().sha256,
        "tokenizer.json": make_blob().sha256,
    }
    visibility = Visibility.PUBLIC if public else Visibility.PRIVATE
    return register_local(owner=owner, name=name, engine="torch", files=files, visibility=visibility)


def training_request(
    toml: str = "", *, name: str = "sort", environment: str = "tiny-env", **fields: Any
) -> TrainingRequest:
    """Three steps of the owner's own `base` and environment; `toml` is added at its end."""
    head = f'name = "{name}"\nmodel = "base"\nmax_steps = 3\nbatch_size = 8\n'
    text = f'{head}[[env]]\nid = "{environment}"\n{toml}'
    return TrainingRequest(toml=text, **fields)


def create_run(user: User | None = None, request: TrainingRequest | None = None) -> TrainingRun:
    """A queued training run, with the model that it needs, and an environment if the user has none."""
    user = user or make_user()
    if not user.owner.environments.exists():
        create_ready_version(user)
    if not Model.objects.filter(owner=user.owner, name="base").exists():
        create_trainable(user.owner)
    return create_training(user=user, owner=user.owner, request=request or training_request())


def start(training: TrainingRun) -> str:
    """Put the run into a worker's hands; its run token."""
    run = Run.objects.get(pk=training.run_id)
    token = hold_run(run)
    training.refresh_from_db()
    return token


def step_report(
    step: int = 1,
    rewards: Sequence[float] = (1.0, 0.0),
    prompt: Json = None,
    completion: Json = None,
    **metrics: Any,
) -> StepReport:
    """A step whose rollouts are uploaded, with this conversation if one is given."""
    said = {"prompt": prompt, "completion": completion}
    told = {"extras": _view()} | {name: value for name, value in said.items() if value}
    records = [make_record(0, index, reward, **told) for index, reward in enumerate(rewards)]
    mean = sum(rewards) / len(rewards) if rewards else None
    segments = (_segment(records),) if records else ()
    return StepReport(metrics=StepMetrics(step=step, **{"reward_mean": mean, **metrics}), segments=segments)


def _view() -> dict[str, Any]:
    turn = TokenTraining(trained=(True,), advantages=(0.5,), versions=(0,))
    return {"training": RolloutTokens(turns=(turn,)).model_dump(mode="json")}


def _segment(records: Sequence[RolloutRecord]) -> StepSegment:
    content = write_segment(records)
    blob = make_blob(content)
    rows = tuple(
        TrainingIndexRow(
            index=index,
            environment="tiny-env",
            example=row.example,
            example_hash=row.example_hash,
            group="0",
            outcome=row.outcome,
            reward=row.reward,
            advantage=0.5,
            metrics=row.metrics,
            asked=row.asked,
            answered=row.answered,
            target=row.target,
            turns=row.turns,
            completion_tokens=1,
            duration_s=row.duration_s,
            version_min=0,
            version_max=0,
            row_group=row.row_group,
            row=row.row,
        )
        for index, row in enumerate(index_rows(records, positions(content)))
    )
    return StepSegment(sha256=blob.sha256, size=blob.size, rows=rows)


def checkpoint_report(step: int, **fields: Any) -> CheckpointReport:
    """A checkpoint of two files."""
    files = {"weights/w.safetensors": make_blob().sha256, "journal/manifest.jsonl": make_blob().sha256}
    return CheckpointReport(step=step, files=files, **fields)


def adapter_report(step: int = 3, *, mode: TrainingMode = TrainingMode.LORA, **fields: Any) -> AdapterReport:
    """A LoRA adapter, or for mode full a whole model."""
    lora = {"r": 16, "lora_alpha": 16, "target_modules": sorted(LORA_TARGETS)}
    config = json.dumps(lora if mode is TrainingMode.LORA else SHAPE).encode()
    name = "adapter_config.json" if mode is TrainingMode.LORA else "config.json"
    weights = "adapter_model.safetensors" if mode is TrainingMode.LORA else "model.safetensors"
    files = {name: make_blob(config).sha256, weights: make_blob().sha256}
    rank = 16 if mode is TrainingMode.LORA else None
    return AdapterReport(step=step, mode=mode, files=files, rank=rank, alpha=rank, **fields)


def report(training: TrainingRun, said: Any) -> Any:
    """Report as the training run's worker does, without HTTP."""
    services: dict[type, Callable[..., Any]] = {
        BeginningReport: report_beginning,
        StepReport: report_step,
        EvaluationReport: report_evaluation,
        CheckpointReport: report_checkpoint,
        AdapterReport: report_adapter,
    }
    return services[type(said)](training=training, report=said, guard=lambda: Run.objects.get(pk=training.run_id))
