"""Replays: what of a stored rollout the rollouts of another evaluation begin with, and which calls one can begin at."""

from __future__ import annotations

from dataclasses import dataclass

from envhub.packaging.asked import digest
from envhub.packaging.conversation import conversation
from envhub.protocol.evals import EvaluationConfig
from envhub.protocol.replays import Replay, Replayed, StoredCall, StoredCalls
from envhub.protocol.rollouts import RolloutRecord, Turn

from hub.accounts.models import User
from hub.accounts.queries import Caller
from hub.core.errors import Invalid, NotFound
from hub.evals.models import Evaluation
from hub.evals.queries import get_evaluation, get_rollout, read_record, visible_evaluations
from hub.registry.models import Environment

MOST_LISTED = 20  # replays of a rollout
_BY_TOKENS = "tokens"  # of this protocol an answer is stored without the tokens that its client wants


def answered_calls(record: RolloutRecord) -> list[Turn]:
    """The policy's calls that had an answer, in order: what a replay counts."""
    return [turn for turn in record.turns if turn.route == "policy" and turn.status < 400 and not turn.error]


def can_be_replayed(record: RolloutRecord) -> bool:
    """Whether any of its calls can."""
    calls = answered_calls(record)
    return bool(calls) and all(turn.protocol != _BY_TOKENS for turn in calls)


@dataclass(frozen=True)
class Sampled:
    """An answered call of the policy: how many were answered before it, and whether it was replayed itself."""

    before: int
    replayed: bool


def calls_by_turn(record: RolloutRecord) -> dict[int, Sampled]:
    """By the turn's index."""
    calls = enumerate(answered_calls(record))
    return {turn.index: Sampled(before, turn.replayed is not None) for before, turn in calls}


def calls_by_message(record: RolloutRecord) -> dict[int, Sampled]:
    """By the number of the message that it wrote; empty where it is not plain which call wrote which."""
    written = [number for number, message in enumerate(conversation(record)) if message.sampled]
    calls = calls_by_turn(record).values()
    return dict(zip(written, calls, strict=True)) if len(written) == len(calls) else {}


def replayed_evaluation(user: User, replay: Replay) -> Evaluation:
    """Whose rollout is replayed. Raises NotFound, also for what is no id; AmbiguousId."""
    try:
        return get_evaluation(user, replay.evaluation)
    except ValueError as error:
        raise NotFound("there is no such evaluation to replay from") from error


def find_replayed(user: User, replay: Replay, environment: Environment) -> tuple[Evaluation, Replay]:
    """The evaluation that is replayed from, and the replay with its whole id.

    Raises NotFound (absent or invisible), Invalid: of another environment, or with fewer calls than are to be replayed.
    """
    evaluation = replayed_evaluation(user, replay)
    if evaluation.environment_id != environment.pk:
        raise Invalid(
            "the rollout to be replayed is of another environment",
            hint=f"evaluate {evaluation.environment.owner.slug}/{evaluation.environment.name}, any version of it",
            fields={"replay": "of another environment"},
        )
    record = read_record(get_rollout(evaluation, replay.example, replay.rollout))
    if not can_be_replayed(record):
        raise Invalid(
            "this rollout has no model calls that can be replayed",
            hint="rollouts that the hub ran itself have them; those that were pushed have not",
            fields={"replay": "no calls"},
        )
    there = len(answered_calls(record))
    if replay.calls > there:
        raise Invalid(
            f"the rollout to be replayed has {there} answered model calls, not {replay.calls}",
            fields={"replay": f"at most {there} calls"},
        )
    return evaluation, replay.model_copy(update={"evaluation": str(evaluation.pk)})


def stored_calls(evaluation: Evaluation, config: EvaluationConfig) -> StoredCalls:
    """What the run of a replay is told. Raises NotFound when the evaluation is none, or what it replays is gone."""
    replay, source = config.replay, evaluation.replay_of
    if replay is None:
        raise NotFound("this evaluation replays nothing")
    if source is None:
        raise NotFound(
            "the evaluation whose rollout was to be replayed has been deleted", hint="start an evaluation of its own"
        )
    record = read_record(get_rollout(source, replay.example, replay.rollout))
    calls = tuple(
        StoredCall(
            protocol=turn.protocol,
            asked=digest(turn.request),
            response=turn.response,
            finish_reason=turn.finish_reason,
        )
        for turn in answered_calls(record)[: replay.calls]
    )
    return StoredCalls(example_hash=record.example_hash, calls=calls)


@dataclass(frozen=True)
class ReplayedPart:
    """Of a rollout that began as another one did: how far, and the first call that asked something else."""

    calls: int
    changed_at: int | None  # the index of a turn


def replayed_part(record: RolloutRecord) -> ReplayedPart | None:
    """None: the model has answered every call."""
    given = [turn for turn in record.turns if turn.replayed is not None]
    if not given:
        return None
    changed = next((turn.index for turn in given if turn.replayed is Replayed.CHANGED), None)
    return ReplayedPart(len(given), changed)


@dataclass(frozen=True)
class Original:
    """What a replay replays, for its pages."""

    replay: Replay
    evaluation: Evaluation | None  # None: it is gone, or not for the viewer


def original_of(user: Caller, evaluation: Evaluation) -> Original | None:
    """None: the evaluation is no replay."""
    stored = evaluation.config.get("replay")
    if not stored:
        return None
    found = visible_evaluations(user).filter(pk=evaluation.replay_of_id).first() if evaluation.replay_of_id else None
    return Original(Replay.model_validate(stored), found)


def replays_of(user: Caller, evaluation: Evaluation, example: int, rollout: int) -> list[Evaluation]:
    """The newest replays of a rollout that the user may see."""
    rows = Evaluation.objects.filter(replay_of=evaluation.pk).order_by("-pk")
    of_it = rows.filter(config__replay__example=example, config__replay__rollout=rollout)
    keys = list(of_it.values_list("pk", flat=True)[:MOST_LISTED])
    return list(visible_evaluations(user).filter(pk__in=keys)) if keys else []  # most have none, and ask no more
