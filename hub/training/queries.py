"""Reads of training runs. Every list has an index for its order; a page's cost does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet
from envhub.packaging.segments import BadSegment, read_rollout
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from envhub.protocol.training.health import WINDOW
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, User
from hub.accounts.queries import Caller, owner_ids, visible_owner_ids
from hub.catalog.models import Model
from hub.core.errors import HubError, NotFound
from hub.core.ids import GivenId, find_by_id
from hub.evals.segment_reading import read_together
from hub.registry.models import HEAVY_VERSION_FIELDS
from hub.runs.models import Run
from hub.storage.queries import local_or_temp_path
from hub.training.models import (
    Adapter,
    Checkpoint,
    Step,
    TrainingEvaluation,
    TrainingRollout,
    TrainingRun,
    TrainingVersion,
    Use,
)


def plain_training() -> QuerySet[TrainingRun]:
    """Return everybody's runs, newest first, with what pages need of them. Callers must check visibility."""
    rows = TrainingRun.objects.select_related("owner", "created_by", "run").order_by("-pk")
    return rows.defer("toml", "encrypted_env").prefetch_related(Prefetch("versions", pinned_versions()))


def visible_training(user: Caller) -> QuerySet[TrainingRun]:
    """Return the runs of the user's owners, and public ones whose environments are all public."""
    rows = plain_training()
    if isinstance(user, User) and user.is_administrator:
        return rows
    private = TrainingVersion.objects.filter(
        training=OuterRef("pk"), version__environment__visibility=Visibility.PRIVATE.value
    )
    public = Q(visibility=Visibility.PUBLIC.value) & ~Exists(private)
    # Ids instead of a subquery: the planner then knows how few owners there are and walks the list's own index.
    return rows.filter(public | Q(owner_id__in=list(visible_owner_ids(user))))


def pinned_versions() -> QuerySet[TrainingVersion]:
    """Return pinned versions with the names of their environments, without heavy fields."""
    rows = TrainingVersion.objects.select_related("version__environment__owner")
    return rows.defer(*(f"version__{name}" for name in HEAVY_VERSION_FIELDS)).order_by("-use", "position")


def authors_of_run(run: Run) -> frozenset[UUID]:
    """Return the owners of the environments that a run trains and evaluates on."""
    rows = TrainingVersion.objects.filter(training__run=run).order_by()
    return frozenset(rows.values_list("version__environment__owner_id", flat=True))


def list_training(user: Caller, *, owner: str = "", model: str = "", name: str = "") -> QuerySet[TrainingRun]:
    """Return visible runs that match."""
    rows = visible_training(user)
    if owner:
        rows = rows.filter(owner_id__in=owner_ids(owner))
    if name:
        rows = rows.filter(name=name)
    return rows.filter(model_name=model) if model else rows


def get_training(user: Caller, training_id: GivenId) -> TrainingRun:
    """Return one run. Raises NotFound if it is absent or not visible, AmbiguousId."""
    found = find_by_id(visible_training(user), training_id, lambda row: f"{row.name}, {row.model_name}, {row.state}")
    if found is None:
        raise NotFound("the training run does not exist", hint="`hub train list` shows yours")
    return found


def get_many_training(user: Caller, ids: Iterable[GivenId]) -> list[TrainingRun]:
    """Return several runs without repetitions, the oldest first. Raises NotFound (absent or hidden), AmbiguousId."""
    rows = visible_training(user)
    found = [find_by_id(rows, one, lambda row: f"{row.name}, {row.model_name}, {row.state}") for one in ids]
    if None in found:
        raise NotFound("the training run does not exist", hint="`hub train list` shows yours")
    return sorted({row.pk: row for row in found if row is not None}.values(), key=lambda row: row.pk)


def steps_after(training: TrainingRun, step: int) -> QuerySet[Step]:
    """Return the steps after `step`, in order."""
    return Step.objects.filter(training=training, step__gt=step).order_by("step")


def metrics_of(training: TrainingRun, rows: Iterable[Step]) -> list[StepMetrics]:
    """Return the metrics of consecutive steps, each with the evaluations made after it."""
    steps = list(rows)
    points = evaluation_points(training, first=steps[0].step, last=steps[-1].step) if steps else ()
    by_step: dict[int, list[EvaluationPoint]] = {}
    for point in points:
        by_step.setdefault(point.step, []).append(point)
    found = [StepMetrics.model_validate(row.metrics) for row in steps]
    return [one.model_copy(update={"evaluations": tuple(by_step.get(one.step, ()))}) for one in found]


def recent_metrics(training: TrainingRun) -> list[StepMetrics]:
    """Return the newest steps, oldest first, on which the health badges are based."""
    rows = Step.objects.filter(training=training).order_by("-step")[:WINDOW]
    return [StepMetrics.model_validate(row.metrics) for row in reversed(rows)]


def evaluation_points(training: TrainingRun, *, first: int = 0, last: int | None = None) -> tuple[EvaluationPoint, ...]:
    """Return the evaluations after steps `first` to `last`, ordered by step and label."""
    rows = TrainingEvaluation.objects.filter(training=training, step__gte=first).order_by("step", "label")
    if last is not None:
        rows = rows.filter(step__lte=last)
    return tuple(EvaluationPoint.model_validate(row.point) for row in rows)


def get_step(training: TrainingRun, step: int | None) -> Step | None:
    """Return a step (None: the newest, or None if there is none yet). Raises NotFound for an unknown number."""
    rows = Step.objects.filter(training=training)
    if step is None:
        return rows.order_by("-step").first()
    found = rows.filter(step=step).first()
    if found is None:
        raise NotFound(f"the run has no step {step}")
    return found


def filter_rollouts(
    step: Step | None, *, of: TrainingRun, environment: str = "", outcome: str = ""
) -> QuerySet[TrainingRollout]:
    """Return the rollouts of a step, or of all steps of the run `of`, that match.

    `outcome` is one of Outcome or a FailureKind.
    """
    rows = TrainingRollout.objects.filter(step=step) if step else TrainingRollout.objects.filter(step__training=of)
    if environment:
        rows = rows.filter(environment=environment)
    if outcome in set(Outcome):
        rows = rows.filter(outcome=outcome)
    elif outcome:
        rows = rows.filter(failure_kind=outcome)
    return rows


def get_rollout(training: TrainingRun, step: int, index: int) -> TrainingRollout:
    """Return the slim row of one rollout, with its segment and step. Raises NotFound."""
    rows = TrainingRollout.objects.filter(step__training=training, step__step=step, index=index)
    found = rows.select_related("segment", "step").first()
    if found is None:
        raise NotFound(f"step {step} has no rollout {index}")
    return found


def trained_in(training: TrainingRun, row: TrainingRollout) -> TrainingVersion | None:
    """Return the `[[env]]` that a rollout belongs to."""
    named = (item for item in training.versions.all() if item.use == Use.TRAIN and item.label == row.environment)
    return next(named, None)


def read_record(row: TrainingRollout) -> RolloutRecord:
    """Read the whole record from its segment. Raises HubError (`bad_segment`) if the file contradicts the index."""
    with local_or_temp_path(row.segment.blob_id) as path:
        return _record_in(path, row)


def read_records(rows: Sequence[TrainingRollout]) -> list[RolloutRecord]:
    """Read several records in their order, each segment fetched once; the segments must be loaded. Raises HubError."""
    return read_together(rows, _record_in)


def _record_in(path: Path, row: TrainingRollout) -> RolloutRecord:
    try:
        record = read_rollout(path, row.row_group, row.row)
    except BadSegment as error:
        raise HubError(f"the stored rollout cannot be read: {error.message}", code=error.code) from error
    if record.example != row.example:
        raise HubError("the stored segment has a different rollout at this position", code="bad_segment")
    return record


def checkpoints_of(training: TrainingRun) -> QuerySet[Checkpoint]:
    """Return the run's checkpoints, newest first."""
    return Checkpoint.objects.filter(training=training).order_by("-step")


def newest_checkpoint(training: TrainingRun) -> Checkpoint | None:
    """Return the checkpoint from which the run continues."""
    return Checkpoint.objects.filter(training=training).order_by("-step").first()


def get_checkpoint(user: Caller, checkpoint_id: str) -> Checkpoint:
    """Return a checkpoint of a visible run. Raises NotFound, AmbiguousId."""
    try:
        rows = Checkpoint.objects.filter(training__in=visible_training(user).order_by().values("pk"))
        found = find_by_id(rows.select_related("training"), checkpoint_id, lambda row: f"step {row.step}")
    except ValueError:
        found = None
    if found is None:
        raise NotFound(
            f"the checkpoint {checkpoint_id[:100]} does not exist", hint="`hub train checkpoints RUN` lists them"
        )
    return found


def adapters_of(training: TrainingRun) -> QuerySet[Adapter]:
    """Return what the run has added to the catalog, newest first."""
    return Adapter.objects.filter(training=training).select_related("model__owner").order_by("-step")


def adapters_of_owner(owner: Owner) -> QuerySet[Adapter]:
    """Return what the owner's runs have added to the catalog, newest first."""
    rows = Adapter.objects.filter(model__owner=owner)
    return rows.select_related("model__owner", "model__base__owner", "training").order_by("-pk")


def adapter_of_model(model: Model) -> Adapter:
    """Return what a training run has stored with a model. Raises NotFound for another's."""
    rows = Adapter.objects.select_related("model__owner", "model__base__owner", "training")
    found = rows.filter(model=model).first()
    if found is None:
        raise NotFound(f"{model.owner.slug}/{model.name} was not made by a training run", hint="`hub deploy create`")
    return found


def adapter_of_checkpoint(checkpoint: Checkpoint) -> Adapter | None:
    """Return what a run added to the catalog at a checkpoint's step."""
    rows = Adapter.objects.select_related("model__owner", "model__base__owner", "training")
    return rows.filter(training=checkpoint.training_id, step=checkpoint.step).first()
