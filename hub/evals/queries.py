"""Reads of evaluations and their rollouts; every list has an index for its order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
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
from hub.evals.annotations import labelled
from hub.evals.discussed import discussed
from hub.evals.models import RETRIED_KINDS, Contender, Evaluation, ExampleScore, RolloutIndex, Segment
from hub.evals.statistics import ExampleTally, ScoredExample
from hub.registry.models import Environment
from hub.registry.queries import get_environment, get_version_of, split_reference
from hub.runs.models import Run
from hub.runs.transitions import OPEN
from hub.storage.queries import local_or_temp_path

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

MOST_COMPARED = 50_000  # examples of an evaluation that a page reads
MOST_RANKED = 1000  # models of a leaderboard
MOST_SHOWN = 1000  # runs of one evaluation
MOST_BOARDS = 200  # settings that are offered
MOST_CONTENDERS = 2000  # that a leaderboard is made of


def plain_evaluations() -> QuerySet[Evaluation]:
    """Everybody's, with what pages need of them, newest first. Who may see which is for the caller to say."""
    rows = Evaluation.objects.select_related("owner", "environment__owner", "version", "created_by")
    return rows.defer(
        *(f"version__{name}" for name in ("readme", "files", "lock", "describe", "scripted_rollout")), "push_metadata"
    ).order_by("-pk")


def authors_of_run(run: Run) -> frozenset[UUID]:
    """The owner of the environment that a run evaluates; none once another run has taken its place."""
    return frozenset(Evaluation.objects.filter(run=run).values_list("environment__owner_id", flat=True))


def visible_evaluations(user: Caller) -> QuerySet[Evaluation]:
    """The user's owners' evaluations, and public ones of public environments."""
    rows = plain_evaluations()
    if isinstance(user, User) and user.is_administrator:
        return rows
    public = Q(visibility=Visibility.PUBLIC.value, environment__visibility=Visibility.PUBLIC.value)
    # ids instead of a subquery: the planner then knows how few owners there are and walks the list's own index
    return rows.filter(public | Q(owner_id__in=list(visible_owner_ids(user))))


def list_evaluations(user: Caller, *, environment: str = "", model: str = "", owner: str = "") -> QuerySet[Evaluation]:
    """Visible evaluations, narrowed. `environment` is owner/name or owner/name@version. Raises NotFound for it."""
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
    """One evaluation. Raises NotFound when absent or not visible, AmbiguousId."""
    return get_evaluations(user, [evaluation_id])[0]


def get_evaluations(user: Caller, ids: Iterable[GivenId]) -> list[Evaluation]:
    """Each of them; who `user` is, is asked once. Raises NotFound when one is absent or not visible, AmbiguousId."""
    rows = visible_evaluations(user).select_related("run")
    found = [find_by_id(rows, one, _in_words) for one in ids]
    if None in found:
        raise NotFound("there is no such evaluation")
    return [row for row in found if row is not None]


def configuration_of(evaluation: Evaluation) -> EvaluationConfig:
    """What another one like it is started with, by today's rules as far as they take it; its environment with its
    version."""
    environment, version = evaluation.environment, evaluation.version
    reference = f"{environment.owner.slug}/{environment.name}" + (f"@{version.version}" if version else "")
    try:
        fields = {"environment": reference, "model": evaluation.model_name}
        return EvaluationConfig.model_validate(evaluation.config | fields)
    except ValidationError:  # of an earlier release
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
    """The rollouts of an evaluation, narrowed. `outcome` is one of Outcome or, for failures, a FailureKind; `label` one
    that people have put on them, or "any".

    Raises Invalid for another outcome.
    """
    rows = RolloutIndex.objects.filter(evaluation=evaluation)
    if outcome in set(Outcome):
        rows = rows.filter(outcome=outcome)
    elif outcome in set(FailureKind):
        rows = rows.filter(failure_kind=outcome).exclude(failure_kind="")  # the partial index's own condition
    elif outcome:
        known = ", ".join([*Outcome, *FailureKind])
        raise Invalid(f"outcome is one of {known}", fields={"outcome": outcome[:100]})
    if min_reward is not None:
        rows = rows.filter(reward__gte=min_reward)
    if max_reward is not None:
        rows = rows.filter(reward__lte=max_reward)
    if label:
        rows = rows.filter(pk__in=labelled(discussed(evaluation), label))
    return rows if example is None else rows.filter(example=example)


def get_rollout(evaluation: Evaluation, example: int, rollout: int) -> RolloutIndex:
    """The slim row of one rollout, with its segment. Raises NotFound."""
    rows = RolloutIndex.objects.filter(evaluation=evaluation, example=example, rollout=rollout)
    found = rows.select_related("segment").first()
    if found is None:
        raise NotFound(f"the evaluation has no rollout {rollout} of example {example}")
    return found


def read_record(row: RolloutIndex) -> RolloutRecord:
    """The whole record, from its segment alone. Raises HubError (`bad_segment`) when the file is not what was said."""
    try:
        with local_or_temp_path(row.segment.blob_id) as path:
            record = read_rollout(path, row.row_group, row.row)
    except BadSegment as error:
        raise HubError(f"the stored rollout cannot be read: {error.message}", code=error.code) from error
    if (record.example, record.rollout) != (row.example, row.rollout):
        raise HubError("the stored segment holds another rollout at this place", code="bad_segment")
    return record


class Counted(TypedDict):
    """What `segments_of` adds to a row."""

    row_count: int


CountedSegment: TypeAlias = "WithAnnotations[Segment, Counted]"


def segments_of(evaluation: Evaluation) -> QuerySet[CountedSegment]:
    """Segments that the index points at, each with its blob and `row_count`. Newest first, as every list."""
    rows = RolloutIndex.objects.filter(segment=OuterRef("pk")).order_by()
    counts = rows.values("segment").annotate(count=Count("pk")).values("count")
    found = Segment.objects.filter(Exists(rows), evaluation=evaluation).select_related("blob")
    return found.annotate(row_count=Subquery(counts)).order_by("-pk")


def example_tallies(evaluation: Evaluation) -> dict[int, ScoredExample]:
    """By example. Raises Invalid for more than MOST_COMPARED of them."""
    text = Cast("tally", TextField())  # pydantic reads it: for tens of thousands half the time of json and pydantic
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
    """The rollouts of a page's examples, by example and number."""
    rows = RolloutIndex.objects.filter(evaluation=evaluation, example__in=list(examples))
    return rows.order_by("example", "rollout")


def rollouts_together(
    evaluations: Iterable[Evaluation], examples: Iterable[int], *, most: int
) -> QuerySet[RolloutIndex]:
    """The first `most` rollouts of these examples in each of the evaluations, by example and number."""
    rows = RolloutIndex.objects.filter(evaluation__in=list(evaluations), example__in=list(examples), rollout__lt=most)
    return rows.order_by("example", "rollout")


class Contending(NamedTuple):
    """What is read of a contender."""

    board: str
    version_id: UUID | None
    model_name: str
    evaluations: int
    newest: UUID


class Board(NamedTuple):
    """Evaluations of an environment that were measured in the same way."""

    key: str
    models: int
    newest: UUID  # its newest evaluation


Owners: TypeAlias = Collection[UUID] | None  # whose private evaluations are seen; None: everybody's


def owners_seen(user: Caller) -> Owners:
    """Whose private evaluations `user` sees: for the queries below, so that it is asked once."""
    return None if isinstance(user, User) and user.is_administrator else list(visible_owner_ids(user))


def contenders(owners: Owners, environment: Environment, key: str = "") -> list[Contending]:
    """Those of an environment, or of one board, that may be seen with these owners, evaluated last first; no more than
    MOST_CONTENDERS. Everybody's and one's own are each read by an index of theirs."""
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
    """Those of the newest version first, of these those of the most models, then of the most evaluations, then the
    newest; what names no version comes last."""
    grouped: dict[str, list[Contending]] = defaultdict(list)
    for one in found:
        grouped[one.board].append(one)
    ordered = sorted(grouped.items(), key=lambda item: _standing(item[1]), reverse=True)
    return [Board(key, models=len({one.model_name for one in own}), newest=max(one.newest for one in own))
            for key, own in ordered]  # fmt: skip


def _standing(board: Sequence[Contending]) -> tuple[bool, int, int, int, UUID]:
    """Higher comes first; a board is of one version."""
    version = board[0].version_id
    models = {one.model_name for one in board}
    evaluations = sum(one.evaluations for one in board)
    newest = max(one.newest for one in board)
    return version is not None, version.int if version else 0, len(models), evaluations, newest


def newest_of_models(found: Iterable[Contending], key: str) -> list[UUID]:
    """Each model's newest evaluation on a board, newest first."""
    newest: dict[str, UUID] = {}
    for one in found:
        if one.board == key:
            newest[one.model_name] = max(one.newest, newest.get(one.model_name, one.newest))
    return sorted(newest.values(), reverse=True)


def done_examples(evaluation: Evaluation, first: int, stop: int) -> dict[int, DoneExample]:
    """Of examples first .. stop - 1 by example: the rollouts that need not be attempted again."""
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
    """The runs that work on an evaluation or wait to, the first one first, each with its worker and what it told."""
    own = Q(pk=evaluation.run_id) | Q(parent=evaluation.run_id, state__in=OPEN)
    runs = Run.objects.filter(own).select_related("worker", "shard")
    return list(runs.order_by("pk")[:MOST_SHOWN]) if evaluation.run_id else []
