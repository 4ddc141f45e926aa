"""Training runs: start, watch, metrics, rollouts, checkpoints, export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.evals.annotations import (
    LabelCounts,
    NoteRequest,
    NoteView,
    RolloutLabels,
    SavedTrainingViewRequest,
    SavedView,
)
from envhub.protocol.evals.fingerprints import FingerprintView
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.registry.packages import VisibilityPatch
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import (
    AdapterView,
    CheckpointView,
    ResumeRequest,
    TrainingRequest,
    TrainingRolloutRow,
    TrainingRunView,
)
from envhub.protocol.visibility import Visibility


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
        used: str | None = None,
        label: str | None = None,
        after: int | None = None,
    ) -> Iterator[TrainingRolloutRow]:
        """Slim rows of one step (default: the newest), in their order; `environment` is a label of the configuration.

        With a `label` that people have put on rollouts ("any": whatever it is) and no step, of all steps. Those
        `after` this index of a step alone.
        """
        path = f"/training/{training_id}/rollouts"
        narrowed = {"environment": environment, "outcome": outcome, "used": used, "label": label}
        return iterate(self._hub, path, Page[TrainingRolloutRow], step=step, after=after, **narrowed)

    def rollout(self, training_id: str, step: int, index: int) -> RolloutRecord:
        """One whole rollout; its `extras["training"]` is a RolloutTokens."""
        return self._hub.get(f"/training/{training_id}/rollouts/{step}/{index}", RolloutRecord)

    def label(self, training_id: str, step: int, index: int, label: str) -> RolloutLabels:
        """Put a label on a rollout; answers all that it has."""
        return self._hub.put(_said(training_id, step, index, f"labels/{label}"), None, RolloutLabels)

    def unlabel(self, training_id: str, step: int, index: int, label: str) -> None:
        """Take a label off a rollout."""
        self._hub.delete(_said(training_id, step, index, f"labels/{label}"))

    def labels(self, training_id: str) -> LabelCounts:
        """All labels of a run, the most frequent first."""
        return self._hub.get(f"/training/{training_id}/labels", LabelCounts)

    def notes(self, training_id: str, step: int, index: int) -> Iterator[NoteView]:
        """The notes on a rollout, newest first; for members of the run's owner."""
        return iterate(self._hub, _said(training_id, step, index, "notes"), Page[NoteView])

    def add_note(self, training_id: str, step: int, index: int, text: str) -> NoteView:
        """Add a note to a rollout, in Markdown."""
        return self._hub.post(_said(training_id, step, index, "notes"), NoteRequest(text=text), NoteView)

    def delete_note(self, training_id: str, step: int, index: int, note_id: str) -> None:
        """Delete one's own note."""
        self._hub.delete(_said(training_id, step, index, f"notes/{note_id}"))

    def views(self, training_id: str) -> Iterator[SavedView]:
        """The filters that are kept for all runs of this one's owner, newest first."""
        return iterate(self._hub, f"/training/{training_id}/views", Page[SavedView])

    def save_view(self, training_id: str, request: SavedTrainingViewRequest) -> SavedView:
        """Keep a filter under a name."""
        return self._hub.post(f"/training/{training_id}/views", request, SavedView)

    def delete_view(self, training_id: str, view_id: str) -> None:
        """Forget a saved view."""
        self._hub.delete(f"/training/{training_id}/views/{view_id}")

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

    def export(self, training_id: str, target: Path, *, format: str = "jsonl", labels: bool = False) -> Path:
        """Write metrics (jsonl, tensorboard) or rollouts (parquet; `labels`: with theirs) into the file `target`."""
        path = f"/training/{training_id}/export"
        return self._hub.save(path, target, format=format, labels="true" if labels else None)


def _said(training_id: str, step: int, index: int, what: str) -> str:
    return f"/training/{training_id}/rollouts/{step}/{index}/{quote(what)}"
