"""Client calls for evaluations: start and watch them, read rollouts, push results made elsewhere, export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from envhub.client.blobs import Blobs
from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.evals.annotations import (
    LabelCounts,
    NoteRequest,
    NoteView,
    RolloutLabels,
    SavedView,
    SavedViewRequest,
)
from envhub.protocol.evals.clusters import RolloutClusters
from envhub.protocol.evals.comparisons import ComparisonMatrix, ComparisonView
from envhub.protocol.evals.evaluations import (
    EvaluationConfig,
    EvaluationPush,
    EvaluationView,
    RolloutRow,
    SegmentBlob,
    SegmentReply,
    SegmentRequest,
)
from envhub.protocol.evals.fingerprints import FingerprintView
from envhub.protocol.evals.leaderboards import LeaderboardView
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.evals.shards import ShardViews
from envhub.protocol.registry.packages import VisibilityPatch
from envhub.protocol.visibility import Visibility


class Evaluations:
    """Calls under /evaluations."""

    def __init__(self, connection: Connection, blobs: Blobs) -> None:
        self._hub = connection
        self._blobs = blobs

    def create(self, config: EvaluationConfig, owner: str | None = None) -> EvaluationView:
        """Queue a hosted evaluation."""
        return self._hub.post("/evaluations", config, EvaluationView, owner=owner)

    def list(
        self, *, environment: str | None = None, model: str | None = None, owner: str | None = None
    ) -> Iterator[EvaluationView]:
        """List visible evaluations, newest first."""
        page = Page[EvaluationView]
        return iterate(self._hub, "/evaluations", page, environment=environment, model=model, owner=owner)

    def get(self, evaluation_id: str) -> EvaluationView:
        """Return one evaluation with its summary."""
        return self._hub.get(f"/evaluations/{evaluation_id}", EvaluationView)

    def fingerprint(self, evaluation_id: str) -> FingerprintView:
        """Return the settings that determine its result, with their hash."""
        return self._hub.get(f"/evaluations/{evaluation_id}/fingerprint", FingerprintView)

    def shards(self, evaluation_id: str) -> ShardViews:
        """List the runs that work on an evaluation or wait to, its own first."""
        return self._hub.get(f"/evaluations/{evaluation_id}/shards", ShardViews)

    def compare(self, a: str, b: str, *, sort: str | None = None, limit: int | None = None) -> ComparisonView:
        """Compare `b` with `a`, paired by example, listing `limit` examples in the order better, worse or example."""
        return self._hub.get(f"/evaluations/{a}/compare/{b}", ComparisonView, sort=sort, limit=limit)

    def compare_many(
        self,
        evaluation_ids: Sequence[str],
        *,
        sort: str | None = None,
        only: str | None = None,
        limit: int | None = None,
        page: int | None = None,
    ) -> ComparisonMatrix:
        """Compare two to eight evaluations of one environment, the first being the baseline.

        Returns the difference of every pair and a page of the examples' mean rewards. sort: flips, better, worse,
        example; only: regressions, improvements, flips.
        """
        asked = {"sort": sort, "only": only, "limit": limit, "page": page}
        return self._hub.get("/evaluations/compare", ComparisonMatrix, id=list(evaluation_ids), **asked)

    def leaderboard(self, environment: str, *, settings: str | None = None) -> LeaderboardView:
        """Return models measured the same way on `owner/name`: with the most used settings, or the key `settings`."""
        return self._hub.get(f"/environments/{environment}/leaderboard", LeaderboardView, settings=settings)

    def share(self, evaluation_id: str, visibility: Visibility) -> EvaluationView:
        """Change who may see an evaluation."""
        return self._hub.patch(f"/evaluations/{evaluation_id}", VisibilityPatch(visibility=visibility), EvaluationView)

    def delete(self, evaluation_id: str) -> None:
        """Delete an evaluation and its rollouts."""
        self._hub.delete(f"/evaluations/{evaluation_id}")

    def resume(self, evaluation_id: str) -> EvaluationView:
        """Queue the missing rollouts of an evaluation that has ended."""
        return self._hub.post(f"/evaluations/{evaluation_id}/resume", None, EvaluationView)

    def rollouts(
        self,
        evaluation_id: str,
        *,
        outcome: str | None = None,
        min_reward: float | None = None,
        max_reward: float | None = None,
        example: int | None = None,
        label: str | None = None,
        cluster: str | None = None,
        among: str | None = None,
        sort: str | None = None,
    ) -> Iterator[RolloutRow]:
        """List slim rows of rollouts, filtered; `label` "any" matches every label.

        cluster: the name of one of `clusters`. among: examples and rollouts, as in "3,10-14,20.1".
        """
        return iterate(
            self._hub,
            f"/evaluations/{evaluation_id}/rollouts",
            Page[RolloutRow],
            outcome=outcome,
            min_reward=min_reward,
            max_reward=max_reward,
            example=example,
            label=label,
            cluster=cluster,
            among=among,
            sort=sort,
        )

    def clusters(self, evaluation_id: str) -> RolloutClusters:
        """List rollouts that failed with the same message or gave the same wrong answer, the largest clusters first."""
        return self._hub.get(f"/evaluations/{evaluation_id}/clusters", RolloutClusters)

    def rollout(self, evaluation_id: str, example: int, rollout: int) -> RolloutRecord:
        """Return one whole rollout."""
        return self._hub.get(f"/evaluations/{evaluation_id}/rollouts/{example}/{rollout}", RolloutRecord)

    def label(self, evaluation_id: str, example: int, rollout: int, label: str) -> RolloutLabels:
        """Add a label to a rollout and return all its labels."""
        return self._hub.put(_said(evaluation_id, example, rollout, f"labels/{label}"), None, RolloutLabels)

    def unlabel(self, evaluation_id: str, example: int, rollout: int, label: str) -> None:
        """Remove a label from a rollout."""
        self._hub.delete(_said(evaluation_id, example, rollout, f"labels/{label}"))

    def labels(self, evaluation_id: str) -> LabelCounts:
        """List all labels of an evaluation, the most frequent first."""
        return self._hub.get(f"/evaluations/{evaluation_id}/labels", LabelCounts)

    def notes(self, evaluation_id: str, example: int, rollout: int) -> Iterator[NoteView]:
        """List the notes on a rollout, newest first; only for members of the evaluation's owner."""
        return iterate(self._hub, _said(evaluation_id, example, rollout, "notes"), Page[NoteView])

    def add_note(self, evaluation_id: str, example: int, rollout: int, text: str) -> NoteView:
        """Add a note to a rollout, in Markdown."""
        return self._hub.post(_said(evaluation_id, example, rollout, "notes"), NoteRequest(text=text), NoteView)

    def delete_note(self, evaluation_id: str, example: int, rollout: int, note_id: str) -> None:
        """Delete a note of the caller's."""
        self._hub.delete(_said(evaluation_id, example, rollout, f"notes/{note_id}"))

    def views(self, evaluation_id: str) -> Iterator[SavedView]:
        """List the filters saved for evaluations like this one, newest first."""
        return iterate(self._hub, f"/evaluations/{evaluation_id}/views", Page[SavedView])

    def save_view(self, evaluation_id: str, request: SavedViewRequest) -> SavedView:
        """Save a filter under a name."""
        return self._hub.post(f"/evaluations/{evaluation_id}/views", request, SavedView)

    def delete_view(self, evaluation_id: str, view_id: str) -> None:
        """Delete a saved filter."""
        self._hub.delete(f"/evaluations/{evaluation_id}/views/{view_id}")

    def push(self, request: EvaluationPush, owner: str | None = None) -> EvaluationView:
        """Begin an upload. Repeating a fingerprint returns the existing evaluation."""
        return self._hub.post("/evaluations/push", request, EvaluationView, repeatable=True, owner=owner)

    def add_segment(self, evaluation_id: str, request: SegmentRequest) -> SegmentReply:
        """Register an uploaded segment. Idempotent."""
        return self._hub.post(f"/evaluations/{evaluation_id}/segments", request, SegmentReply, repeatable=True)

    def finalize(self, evaluation_id: str) -> EvaluationView:
        """Mark the upload as complete."""
        return self._hub.post(f"/evaluations/{evaluation_id}/finalize", None, EvaluationView, repeatable=True)

    def segments(self, evaluation_id: str) -> Iterator[SegmentBlob]:
        """List stored segments with presigned URLs."""
        return iterate(self._hub, f"/evaluations/{evaluation_id}/segments", Page[SegmentBlob])

    def export(
        self,
        evaluation_id: str,
        target: Path,
        *,
        format: str = "parquet",
        min_reward: float | None = None,
        max_reward: float | None = None,
        label: str | None = None,
        labels: bool = False,
    ) -> Path:
        """Write the export into the file `target`; `labels` adds each rollout's labels."""
        path = f"/evaluations/{evaluation_id}/export"
        narrowed = {"min_reward": min_reward, "max_reward": max_reward, "label": label}
        return self._hub.save(path, target, format=format, labels="true" if labels else None, **narrowed)


def _said(evaluation_id: str, example: int, rollout: int, what: str) -> str:
    return f"/evaluations/{evaluation_id}/rollouts/{example}/{rollout}/{quote(what)}"
