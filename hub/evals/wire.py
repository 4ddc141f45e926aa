"""Converts evaluation rows to wire types, and builds the payload of evaluation runs."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from envhub.protocol.base import BlobRef
from envhub.protocol.evals.annotations import NoteView
from envhub.protocol.evals.annotations import SavedView as SavedViewAnswer
from envhub.protocol.evals.evaluations import (
    EvalPayload,
    EvaluationSource,
    EvaluationSummary,
    EvaluationView,
    RolloutRow,
    SegmentBlob,
)
from envhub.protocol.evals.rollouts import Outcome, Usage
from envhub.protocol.evals.shards import ShardView
from envhub.protocol.registry.packages import GenerationEvidence
from envhub.protocol.runs import FailureKind, RunState
from envhub.protocol.visibility import Visibility

from hub.accounts.queries import Caller, inside_owners
from hub.catalog.queries import get_model
from hub.catalog.wire import target_for
from hub.core.errors import NotFound
from hub.evals.annotation_targets import Place
from hub.evals.annotations import labels_of
from hub.evals.hidden_values import shown_outside
from hub.evals.models import Evaluation, Note, RolloutIndex, SavedRolloutView, Shard
from hub.evals.prices import Prices, cost_of
from hub.evals.queries import CountedSegment
from hub.evals.services.creating import stored_config
from hub.evals.statistics import Aggregate
from hub.registry.check_settings import is_untried
from hub.registry.models import Environment
from hub.registry.readiness import require_built
from hub.registry.wire import lock_for_payload
from hub.runs.judges import judge_targets
from hub.runs.models import Run
from hub.secrets.services import reveal_for_run
from hub.storage.queries import presign_get


def evaluation_views(user: Caller, rows: Sequence[Evaluation]) -> list[EvaluationView]:
    """Return the rows of a list; `user` sees all settings of those whose owner's private things are visible."""
    inside = inside_owners(user, rows)
    return [evaluation_view(row, inside=row.owner_id in inside) for row in rows]


def listed_evaluations(user: Caller, rows: Sequence[Evaluation]) -> list[tuple[Evaluation, EvaluationView]]:
    """Return (row, view) pairs, as the templates of lists take them."""
    return list(zip(rows, evaluation_views(user, rows), strict=True))


def evaluation_view(row: Evaluation, *, inside: bool = False) -> EvaluationView:
    """Return an evaluation with its summary; the relations that hub.evals.queries loads must be loaded.

    inside: the configuration is for a member of the owner, and complete.
    """
    return EvaluationView(
        id=str(row.pk),
        owner=row.owner.slug,
        environment=f"{row.environment.owner.slug}/{row.environment.name}",
        version=row.version.version if row.version else None,
        model=row.model_name,
        name=row.name,
        source=EvaluationSource(row.source),
        state=RunState(row.state),
        run_id=str(row.run_id) if row.run_id else None,
        visibility=Visibility(row.visibility),
        config=row.config if inside else shown_outside(row.config),
        summary=evaluation_summary(row),
        created_by=row.created_by.username,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


def evaluation_summary(row: Evaluation) -> EvaluationSummary:
    """Return the figures, computed from the running aggregate alone."""
    aggregate = Aggregate.model_validate(row.aggregate)
    rollouts_per_example = int(row.config["rollouts_per_example"])
    summary = aggregate.summary(
        planned=row.planned, rollouts_per_example=rollouts_per_example, partial=not row.is_final
    )
    return summary.model_copy(update={"cost": cost_of(row.prices, summary.usage, summary.judge_usage)})


def scored_examples(row: Evaluation) -> int:
    """Return the number of examples with a scored rollout."""
    return Aggregate.model_validate(row.aggregate).scored_examples


def rollout_rows(rows: Sequence[RolloutIndex], prices: Prices, *, labelled: bool = True) -> list[RolloutRow]:
    """Return a page of a list; `labelled`: whether there may be labels; `prices` are those of the evaluation."""
    labels = labels_of([row.pk for row in rows]) if labelled else {}
    return [rollout_row(row, prices, labels.get(row.pk, ())) for row in rows]


def rollout_row(row: RolloutIndex, prices: Prices, labels: tuple[str, ...] = ()) -> RolloutRow:
    """Return one rollout in a list."""
    usage = Usage(prompt_tokens=row.prompt_tokens, completion_tokens=row.completion_tokens)
    judge = Usage(prompt_tokens=row.judge_prompt_tokens, completion_tokens=row.judge_completion_tokens)
    return RolloutRow(
        id=str(row.pk),
        example=row.example,
        rollout=row.rollout,
        outcome=Outcome(row.outcome),
        reward=row.reward,
        metrics=row.metrics,
        failure_kind=FailureKind(row.failure_kind) if row.failure_kind else None,
        failure_message=row.failure_message,
        asked=row.asked,
        answered=row.answered,
        target=row.target,
        turns=row.turns,
        usage=usage,
        cost=cost_of(prices, usage, judge),
        duration_s=row.duration_s,
        labels=labels,
    )


def note_view(row: Note, place: Place) -> NoteView:
    """Return a note with its author."""
    return NoteView(
        id=str(row.pk),
        **place.position,
        text=row.text,
        author=row.created_by.username,
        created_at=row.created_at,
        edited_at=row.edited_at,
    )


def saved_view(row: SavedRolloutView) -> SavedViewAnswer:
    """Return a saved view; the relations that hub.evals.annotations loads must be loaded."""
    # Views of training runs have no environment: they apply to all of an owner's runs.
    environment: Environment | None = getattr(row, "environment", None)
    return SavedViewAnswer(
        id=str(row.pk),
        owner=row.owner.slug,
        environment=f"{environment.owner.slug}/{environment.name}" if environment else "",
        name=row.name,
        query=row.query,
        created_by=row.created_by.username,
        created_at=row.created_at,
    )


def segment_blob(row: CountedSegment) -> SegmentBlob:
    """Return a segment with a presigned URL; the row must come from hub.evals.queries.segments_of."""
    url = presign_get(row.blob_id, filename=f"{row.pk}.parquet")
    return SegmentBlob(blob=BlobRef(sha256=row.blob_id, size=row.blob.size, url=url), rollouts=row.row_count)


def shard_view(run: Run, evaluation: Evaluation) -> ShardView:
    """Return one run of an evaluation, with its latest report."""
    shard: Shard | None = getattr(run, "shard", None)
    told = (
        {} if shard is None else {name: getattr(shard, name) for name in ("finished", "in_flight", "rate", "told_at")}
    )
    return ShardView(
        run_id=str(run.pk),
        worker=run.worker.name if run.worker else "",
        state=RunState(run.state),
        first=run.pk == evaluation.run_id,
        **told,
    )


def eval_payload(run: Run) -> EvalPayload:
    """`RunKindSpec.payload`: return what the worker is given at each claim, according to the current state.

    Raises HubError if the model, a judge or a secret was deleted after the start, or if a rule has become stricter.
    """
    rows = Evaluation.objects.select_related("owner", "environment__owner", "version__environment__owner")
    evaluation = rows.filter(run=run.parent_id or run.pk).first()
    if evaluation is None or evaluation.version is None:
        raise NotFound("the evaluation of this run has been deleted", hint="start a new one")
    version, environment = evaluation.version, evaluation.environment
    require_built(version)
    config = stored_config(evaluation)
    # The replayed rollout or the parent run has already tried the harness.
    tried = config.replay is not None or run.parent_id is not None
    return EvalPayload(
        evaluation_id=str(evaluation.pk),
        environment=f"{environment.owner.slug}/{environment.name}@{version.version}",
        env_id=version.project,
        module=version.module,
        evidence=GenerationEvidence.model_validate(version.evidence),
        lock=lock_for_payload(version),
        config=config,
        target=target_for(get_model(run.created_by, config.model, owner_id=run.owner_id)),
        judges=judge_targets(run.created_by, config.judges, run.owner_id),
        secrets=reveal_for_run(evaluation.owner, config.secrets),
        first=run.parent_id is None,
        data_url=f"{str(settings.HUB.base_url).rstrip('/')}/hf",
        tries_harness=not tried and is_untried(config.harness, version),
    )
