"""Reads of evaluations and their rollouts; every list has an index for its order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from envhub.packaging.segments import BadSegment, read_rollout
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from envhub.protocol.evals.shards import DoneExample
from envhub.protocol.runs import FailureKind
from envhub.protocol.visibility import Visibility
from pydantic import ValidationError

from hub.accounts.models import User
from hub.accounts.queries import Caller, owner_ids, visible_owner_ids
from hub.core.errors import HubError, Invalid, NotFound
from hub.core.ids import GivenId, find_by_id
from hub.evals.annotation_targets import target_of
from hub.evals.annotations import labelled
from hub.evals.models import RETRIED_KINDS, Contender, Evaluation, ExampleScore, RolloutIndex, Segment
from hub.evals.segment_reading import read_together
from hub.evals.statistics import ExampleTally, ScoredExample
from hub.registry.models import Environment
from hub.registry.queries import get_environment, get_version_of, split_reference
from hub.runs.models import Run
from hub.runs.transitions import OPEN
from hub.storage.queries import local_or_temp_path

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

MOST_COMPARED = 50_000  # examples of an evaluation that a page reads
MOST_RANKED = 1000  # models on a leaderboard
MOST_SHOWN = 1000  # runs of one evaluation
MOST_BOARDS = 200  # settings that a leaderboard offers
MOST_CONTENDERS = 2000  # contenders that a leaderboard is computed from


def plain_evaluations() -> QuerySet[Evaluation]:
    """Return everybody's evaluations, newest first, with what pages need of them. Callers must check visibility."""
    rows = Evaluation.objects.select_related("owner", "environment__owner", "version", "created_by")
    return rows.defer(
        *(f"version__{name}" for name in ("readme", "files", "lock", "describe", "scripted_rollout")), "push_metadata"
    ).order_by("-pk")


def authors_of_run(run: Run) -> frozenset[UUID]:
    """Return the owner of the environment that a run evaluates; empty once another run has taken its place."""
    return frozenset(Evaluation.objects.filter(run=run).values_list("environment__owner_id", flat=True))


def visible_evaluations(user: Caller) -> QuerySet[Evaluation]:
    """Return the evaluations of the user's owners, and public ones of public environments."""
    rows = plain_evaluations()
    if isinstance(user, User) and user.is_administrator:
        return rows
    public = Q(visibility=Visibility.PUBLIC.value, environment__visibility=Visibility.PUBLIC.value)
    # Ids instead of a subquery: the planner then knows how few owners there are and walks the list's own index.
    return rows.filter(public | Q(owner_id__in=list(visible_owner_ids(user))))


def list_evaluations(user: Caller, *, environment: str = "", model: str = "", owner: str = "") -> QuerySet[Evaluation]:
    """Return visible evaluations that match. `environment` is owner/name or owner/name@version. Raises NotFound."""
    rows = visible_evaluations(user)
    if environment:
        environment_owner, name, version = split_reference(environment)
        found = get_environment(user, environment_owner, name)
        rows = rows.filter(environment=found)
        if "@" in environment:
            rows = rows.filter(version=get_version_of(found, version))
    if model:
        rows = rows.filter(model_name=model)
    if owner:
        rows = rows.filter(owner_id__in=owner_ids(owner))
    return rows


def get_evaluation(user: Caller, evaluation_id: GivenId) -> Evaluation:
    """Return one evaluation. Raises NotFound if it is absent or not visible, AmbiguousId."""
    return get_evaluations(user, [evaluation_id])[0]


def get_evaluations(user: Caller, ids: Iterable[GivenId]) -> list[Evaluation]:
    """Return several evaluations, checking the user's rights once. Raises NotFound (absent or hidden), AmbiguousId."""
    rows = visible_evaluations(user).select_related("run")
    found = [find_by_id(rows, one, _in_words) for one in ids]
    if None in found:
        raise NotFound("the evaluation does not exist")
    return [row for row in found if row is not None]


def configuration_of(evaluation: Evaluation) -> EvaluationConfig:
    """Return the configuration for starting another evaluation like this one, with its environment and version.

    If today's rules refuse the stored configuration, only environment and model are kept.
    """
    environment, version = evaluation.environment, evaluation.version
    reference = f"{environment.owner.slug}/{environment.name}" + (f"@{version.version}" if version else "")
    try:
        fields = {"environment": reference, "model": evaluation.model_name}
        return EvaluationConfig.model_validate(evaluation.config | fields)
    except ValidationError:  # stored by an earlier release with other rules
        return EvaluationConfig(environment=reference, model=evaluation.model_name)


def _in_words(row: Evaluation) -> str:
    return f"{row.model_name} on {row.environment.owner.slug}/{row.environment.name}, {row.state}"


def filter_rollouts(
    evaluation: Evaluation,
    *,
    outcome: str = "",
    min_reward: float | None = None,
    max_reward: float | None = None,
    example: int | None = None,
    label: str = "",
) -> QuerySet[RolloutIndex]:
    """Return the rollouts of an evaluation that match.

    outcome: one of Outcome or, for failures, of FailureKind; label: a label on the rollouts, or "any". Raises Invalid
    for an unknown outcome.
    """
    rows = RolloutIndex.objects.filter(evaluation=evaluation)
    if outcome in set(Outcome):
        rows = rows.filter(outcome=outcome)
    elif outcome in set(FailureKind):
        rows = rows.filter(failure_kind=outcome).exclude(failure_kind="")  # repeats the partial index's condition
    elif outcome:
        known = ", ".join([*Outcome, *FailureKind])
        raise Invalid(f"outcome is one of {known}", fields={"outcome": outcome[:100]})
    if min_reward is not None:
        rows = rows.filter(reward__gte=min_reward)
    if max_reward is not None:
        rows = rows.filter(reward__lte=max_reward)
    if label:
        rows = rows.filter(pk__in=labelled(target_of(evaluation), label))
    return rows if example is None else rows.filter(example=example)


def get_rollout(evaluation: Evaluation, example: int, rollout: int) -> RolloutIndex:
    """Return the slim row of one rollout, with its segment. Raises NotFound."""
    rows = RolloutIndex.objects.filter(evaluation=evaluation, example=example, rollout=rollout)
    found = rows.select_related("segment").first()
    if found is None:
        raise NotFound(f"the evaluation has no rollout {rollout} of example {example}")
    return found


def read_record(row: RolloutIndex) -> RolloutRecord:
    """Read the whole record from its segment. Raises HubError (`bad_segment`) if the file contradicts the index."""
    with local_or_temp_path(row.segment.blob_id) as path:
        return _record_in(path, row)


def read_records(rows: Sequence[RolloutIndex]) -> list[RolloutRecord]:
    """Read several records in their order, each segment fetched once; the segments must be loaded. Raises HubError."""
    return read_together(rows, _record_in)


def _record_in(path: Path, row: RolloutIndex) -> RolloutRecord:
    try:
        record = read_rollout(path, row.row_group, row.row)
    except BadSegment as error:
        raise HubError(f"the stored rollout cannot be read: {error.message}", code=error.code) from error
    if (record.example, record.rollout) != (row.example, row.rollout):
        raise HubError("the stored segment has a different rollout at this position", code="bad_segment")
    return record


class Counted(TypedDict):
    """The annotation that `segments_of` adds to a row."""

    row_count: int


CountedSegment: TypeAlias = "WithAnnotations[Segment, Counted]"


def segments_of(evaluation: Evaluation) -> QuerySet[CountedSegment]:
    """Return the segments that the index points at, each with its blob and `row_count`, newest first."""
    rows = RolloutIndex.objects.filter(segment=OuterRef("pk")).order_by()
    counts = rows.values("segment").annotate(count=Count("pk")).values("count")
    found = Segment.objects.filter(Exists(rows), evaluation=evaluation).select_related("blob")
    return found.annotate(row_count=Subquery(counts)).order_by("-pk")


def example_tallies(evaluation: Evaluation) -> dict[int, ScoredExample]:
    """Return what is stored of each example. Raises Invalid for more than MOST_COMPARED examples."""
    # For tens of thousands of rows, pydantic parses the text in half the time that json and pydantic take together.
    text = Cast("tally", TextField())
    names = ("example", "example_hash", "content_hash")
    rows = ExampleScore.objects.filter(evaluation=evaluation).values_list(*names, text)
    found = list(rows.order_by("example")[: MOST_COMPARED + 1])
    if len(found) > MOST_COMPARED:
        raise Invalid(
            f"an evaluation of more than {MOST_COMPARED} examples is too large to compare on a page",
            hint="export both as Parquet and compare them there",
        )
    return {
        example: ScoredExample(digest, content, ExampleTally.model_validate_json(tally))
        for example, digest, content, tally in found
    }


def rollouts_of_examples(evaluation: Evaluation, examples: Iterable[int]) -> QuerySet[RolloutIndex]:
    """Return the rollouts of these examples, ordered by example and number."""
    rows = RolloutIndex.objects.filter(evaluation=evaluation, example__in=list(examples))
    return rows.order_by("example", "rollout")


def rollouts_together(
    evaluations: Iterable[Evaluation], examples: Iterable[int], *, most: int
) -> QuerySet[RolloutIndex]:
    """Return the first `most` rollouts of these examples in each evaluation, ordered by example and number."""
    rows = RolloutIndex.objects.filter(evaluation__in=list(evaluations), example__in=list(examples), rollout__lt=most)
    return rows.order_by("example", "rollout")


def prompts(evaluations: Iterable[Evaluation], examples: Iterable[int]) -> dict[int, str]:
    """Return the beginning of each example's prompt, if one of these evaluations has it."""
    rows = rollouts_together(evaluations, examples, most=4)
    return dict(rows.exclude(asked="").values_list("example", "asked"))


class Contending(NamedTuple):
    """The columns that are read of a contender."""

    board: str
    version_id: UUID | None
    model_name: str
    evaluations: int
    newest: UUID


class Board(NamedTuple):
    """A group of evaluations of an environment that were measured in the same way."""

    key: str
    models: int
    newest: UUID  # id of its newest evaluation


Owners: TypeAlias = Collection[UUID] | None  # the owners whose private evaluations are visible; None: everybody's


def owners_seen(user: Caller) -> Owners:
    """Return whose private evaluations the user may see. The queries below take it, so that it is computed once."""
    return None if isinstance(user, User) and user.is_administrator else list(visible_owner_ids(user))


def contenders(owners: Owners, environment: Environment, key: str = "") -> list[Contending]:
    """Return the contenders of an environment, or of one board, that viewers with these owners may see.

    The most recently evaluated come first, at most MOST_CONTENDERS. Public ones and the owners' own are read
    separately, each by its own index.
    """
    rows = Contender.objects.filter(environment=environment, newest__isnull=False).order_by("-newest")
    if key:
        rows = rows.filter(board=key)
    parts = [rows] if owners is None else [rows.filter(owner__in=owners)]
    if owners is not None and environment.is_public:
        parts.append(rows.filter(visibility=Visibility.PUBLIC.value))
    slim = [part.values_list("pk", *Contending._fields)[:MOST_CONTENDERS] for part in parts]
    found = {pk: Contending(*row) for part in slim for pk, *row in part}
    return sorted(found.values(), key=lambda one: one.newest, reverse=True)[:MOST_CONTENDERS]


def boards(found: Iterable[Contending]) -> list[Board]:
    """Group contenders into boards: boards of the newest version come first, boards without a version last.

    Within a version, boards with more models come first, then those with more evaluations, then the oldest, so that a
    single evaluation with unusual settings does not become what the environment is known for.
    """
    grouped: dict[str, list[Contending]] = defaultdict(list)
    for one in found:
        grouped[one.board].append(one)
    ordered = sorted(grouped.items(), key=lambda item: _standing(item[1]), reverse=True)
    return [Board(key, models=len({one.model_name for one in own}), newest=max(one.newest for one in own))
            for key, own in ordered]  # fmt: skip


def _standing(board: Sequence[Contending]) -> tuple[bool, int, int, int, int]:
    """Return a board's sort key, higher first; all contenders of a board have the same version."""
    version = board[0].version_id
    models = {one.model_name for one in board}
    evaluations = sum(one.evaluations for one in board)
    newest = max(one.newest for one in board)
    return version is not None, version.int if version else 0, len(models), evaluations, -newest.int


def newest_of_models(found: Iterable[Contending], key: str) -> list[UUID]:
    """Return each model's newest evaluation on a board, newest first."""
    newest: dict[str, UUID] = {}
    for one in found:
        if one.board == key:
            newest[one.model_name] = max(one.newest, newest.get(one.model_name, one.newest))
    return sorted(newest.values(), reverse=True)


def done_examples(evaluation: Evaluation, first: int, stop: int) -> dict[int, DoneExample]:
    """For examples first .. stop - 1, return the rollouts that need not be attempted again, by example."""
    asked = {"evaluation": evaluation, "example__gte": first, "example__lt": stop}
    kept = RolloutIndex.objects.filter(**asked).exclude(failure_kind__in=RETRIED_KINDS)
    rollouts: dict[int, list[int]] = defaultdict(list)
    for example, rollout in kept.order_by("example", "rollout").values_list("example", "rollout"):
        rollouts[example].append(rollout)
    if not rollouts:
        return {}
    hashes = dict(ExampleScore.objects.filter(**asked).values_list("example", "example_hash"))
    return {
        example: DoneExample(example=example, example_hash=hashes[example], rollouts=tuple(numbers))
        for example, numbers in rollouts.items()
    }


def shards_of(evaluation: Evaluation) -> list[Run]:
    """Return the runs that work on an evaluation or wait to, its own first, each with its worker and latest report."""
    own = Q(pk=evaluation.run_id) | Q(parent=evaluation.run_id, state__in=OPEN)
    runs = Run.objects.filter(own).select_related("worker", "shard")
    return list(runs.order_by("pk")[:MOST_SHOWN]) if evaluation.run_id else []
