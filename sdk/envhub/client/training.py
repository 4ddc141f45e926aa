"""Training runs: start, watch, metrics, rollouts, checkpoints, export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.fingerprints import FingerprintView
from envhub.protocol.packages import Visibility, VisibilityPatch
from envhub.protocol.rollouts import RolloutRecord
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import (
    AdapterView,
    CheckpointView,
    ResumeRequest,
    TrainingRequest,
    TrainingRolloutRow,
    TrainingRunView,
)


class Training:
    """Calls under /training."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def create(self, request: TrainingRequest, owner: str | None = None) -> TrainingRunView:
        """Queue a training run."""
        return self._hub.post("/training", request, TrainingRunView, owner=owner)

    def list(
        self, *, owner: str | None = None, model: str | None = None, name: str | None = None
    ) -> Iterator[TrainingRunView]:
        """Visible training runs, newest first."""
        return iterate(self._hub, "/training", Page[TrainingRunView], owner=owner, model=model, name=name)

    def get(self, training_id: str) -> TrainingRunView:
        """One run with its newest metrics, evaluations, health and adapters."""
        return self._hub.get(f"/training/{training_id}", TrainingRunView)

    def fingerprint(self, training_id: str) -> FingerprintView:
        """What decides its result, and the hash of that."""
        return self._hub.get(f"/training/{training_id}/fingerprint", FingerprintView)

    def metrics(self, training_id: str, *, after_step: int | None = None) -> Iterator[StepMetrics]:
        """Steps in order, those after `after_step`."""
        return iterate(self._hub, f"/training/{training_id}/metrics", Page[StepMetrics], after_step=after_step)

    def rollouts(
        self,
        training_id: str,
        *,
        step: int | None = None,
        environment: str | None = None,
        outcome: str | None = None,
    ) -> Iterator[TrainingRolloutRow]:
        """Slim rows of one step (default: the newest), in their order; `environment` is a label."""
        path = f"/training/{training_id}/rollouts"
        page = Page[TrainingRolloutRow]
        return iterate(self._hub, path, page, step=step, environment=environment, outcome=outcome)

    def rollout(self, training_id: str, step: int, index: int) -> RolloutRecord:
        """One whole rollout; its `extras["training"]` is a RolloutTokens."""
        return self._hub.get(f"/training/{training_id}/rollouts/{step}/{index}", RolloutRecord)

    def checkpoints(self, training_id: str) -> Iterator[CheckpointView]:
        """Kept checkpoints, newest first."""
        return iterate(self._hub, f"/training/{training_id}/checkpoints", Page[CheckpointView])

    def adapters(self, training_id: str) -> Iterator[AdapterView]:
        """What the run has put into the catalog, newest first."""
        return iterate(self._hub, f"/training/{training_id}/adapters", Page[AdapterView])

    def stop(self, training_id: str) -> TrainingRunView:
        """Ask for an end after the current step; its checkpoint and adapter are kept."""
        return self._hub.post(f"/training/{training_id}/stop", None, TrainingRunView, repeatable=True)

    def resume(self, training_id: str, *, step: int | None = None) -> TrainingRunView:
        """Go on with an ended run, from its newest checkpoint or that of `step`: what came after it is discarded."""
        return self._hub.post(f"/training/{training_id}/resume", ResumeRequest(step=step), TrainingRunView)

    def share(self, training_id: str, visibility: Visibility) -> TrainingRunView:
        """Change who may see a run and the adapters that it made."""
        return self._hub.patch(f"/training/{training_id}", VisibilityPatch(visibility=visibility), TrainingRunView)

    def delete(self, training_id: str) -> None:
        """Delete a run with its metrics, rollouts and checkpoints; adapters in the catalog stay."""
        self._hub.delete(f"/training/{training_id}")

    def export(self, training_id: str, target: Path, *, format: str = "jsonl") -> Path:
        """Write metrics (jsonl, tensorboard) or rollouts (parquet) into the file `target`."""
        return self._hub.save(f"/training/{training_id}/export", target, format=format)
