"""Replays: evaluations whose rollouts begin with the stored model calls of another rollout.

The stored rollout belongs to another evaluation, or to a training run, which `hub.training.replays` looks up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from django.urls import reverse
from envhub.packaging.asked import digest
from envhub.packaging.calls import Calls
from envhub.packaging.conversation import Message
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.evals.replays import Replay, Replayed, StoredCall, StoredCalls
from envhub.protocol.evals.rollouts import RolloutRecord, Turn

from hub.accounts.models import Owner
from hub.accounts.queries import Caller
from hub.core.errors import Invalid, NotFound
from hub.evals.models import Evaluation
from hub.evals.queries import configuration_of, get_evaluation, get_rollout, read_record, visible_evaluations
from hub.registry.models import Environment

MOST_LISTED = 20  # replays listed for a rollout
_BY_TOKENS = "tokens"  # in this protocol, answers are stored without the tokens that the client wants


def answered_calls(record: RolloutRecord) -> list[Turn]:
    """Return the policy's answered calls in order; a replay counts these."""
    return [turn for turn in record.turns if turn.route == "policy" and turn.status < 400 and not turn.error]


def can_be_replayed(record: RolloutRecord) -> bool:
    """Return whether a replay can begin with the record's calls."""
    calls = answered_calls(record)
    return bool(calls) and all(turn.protocol != _BY_TOKENS for turn in calls)


@dataclass(frozen=True)
class Sampled:
    """An answered call of the policy: how many were answered before it, and whether it was itself replayed."""

    before: int
    replayed: bool


def calls_by_turn(record: RolloutRecord) -> dict[int, Sampled]:
    """Map turn indices to the policy's answered calls."""
    return {turn.index: call for turn, call in _answered(record)}


def _answered(record: RolloutRecord) -> list[tuple[Turn, Sampled]]:
    calls = enumerate(answered_calls(record))
    return [(turn, Sampled(before, turn.replayed is not None)) for before, turn in calls]


def calls_by_message(record: RolloutRecord, messages: Sequence[Message], agent: str = "") -> dict[int, Sampled]:
    """Map message numbers to the calls that wrote them; `messages` is the record's `conversation`, or an agent's.

    Empty if it is unclear which call wrote which message.
    """
    written = [number for number, message in enumerate(messages) if message.sampled]
    calls = [call for turn, call in _answered(record) if not agent or (turn.agent and turn.agent.id == agent)]
    if agent:  # what its first call was sent may have examples of answers
        written = written[-len(calls) :] if calls else []
    return dict(zip(written, calls, strict=True)) if len(written) == len(calls) else {}


@dataclass(frozen=True)
class Origin:
    """A stored rollout that is replayed, and the evaluation or training run it belongs to (the `whole`)."""

    replay: Replay  # with the full id, and with the example
    whole: UUID  # its id
    title: str  # of the rollout, in words
    address: str  # of the rollout's page
    whole_title: str
    whole_address: str
    environment: Environment
    owner: Owner
    visibility: str
    record: Callable[[], RolloutRecord]  # raises NotFound
    config: Callable[[], EvaluationConfig]  # the configuration that made the rollout


class Source(Protocol):
    """A place where stored rollouts are looked up: evaluations or training runs."""

    def find(self, user: Caller, replay: Replay) -> Origin:
        """Find a rollout that the user may see. Raises NotFound (also for a malformed id), AmbiguousId."""

    def record(self, replay: Replay) -> RolloutRecord:
        """Read the record without asking who may see it; the replay must have the full id. Raises NotFound."""


class _Evaluations:
    def find(self, user: Caller, replay: Replay) -> Origin:
        try:
            found = get_evaluation(user, replay.evaluation)
        except ValueError as error:
            raise NotFound("the evaluation to replay from does not exist") from error
        return Origin(
            replay=replay.model_copy(update={"evaluation": str(found.pk)}),
            whole=found.pk,
            title=f"example {replay.example}, rollout {replay.rollout}",
            address=reverse("rollout", args=[found.pk, replay.example, replay.rollout]),
            whole_title=found.name or found.model_name,
            whole_address=reverse("evaluation", args=[found.pk]),
            environment=found.environment,
            owner=found.owner,
            visibility=found.visibility,
            record=lambda: _record(found, replay),
            config=lambda: configuration_of(found),
        )

    def record(self, replay: Replay) -> RolloutRecord:
        found = Evaluation.objects.filter(pk=replay.evaluation).first()
        if found is None:
            hint = "start a new evaluation"
            raise NotFound("the evaluation with the rollout to replay has been deleted", hint=hint)
        return _record(found, replay)


def _record(evaluation: Evaluation, replay: Replay) -> RolloutRecord:
    return read_record(get_rollout(evaluation, replay.example or 0, replay.rollout))


_SOURCES: dict[bool, Source] = {False: _Evaluations()}  # key: whether the rollout is a training run's


def register_training(source: Source) -> None:
    """Register the source for training runs; called once when the app's modules are loaded."""
    _SOURCES[True] = source


def find_origin(user: Caller, replay: Replay) -> Origin:
    """Find the rollout that is replayed. Raises NotFound (absent or hidden), AmbiguousId."""
    return _SOURCES[bool(replay.training)].find(user, replay)


def find_replayed(user: Caller, replay: Replay, environment: Environment) -> Origin:
    """Find the rollout that is to be replayed in this environment.

    Raises NotFound (absent or hidden), or Invalid if it is of another environment or has fewer calls than requested.
    """
    origin = find_origin(user, replay)
    if origin.environment != environment:
        raise Invalid(
            "the rollout to replay belongs to another environment",
            hint=f"evaluate {origin.environment.owner.slug}/{origin.environment.name}, any version of it",
            fields={"replay": "of another environment"},
        )
    record = origin.record()
    if not can_be_replayed(record):
        raise Invalid(
            "this rollout has no model calls that can be replayed",
            hint="only rollouts that ran on the hub have them, not pushed ones",
            fields={"replay": "no calls"},
        )
    there = len(answered_calls(record))
    if replay.calls > there:
        raise Invalid(
            f"the rollout to replay has {there} answered model calls, not {replay.calls}",
            fields={"replay": f"at most {there} calls"},
        )
    return origin


def stored_calls(config: EvaluationConfig) -> StoredCalls:
    """Return the calls that a replay's run begins with.

    Raises NotFound if it is not a replay or the original is gone.
    """
    replay = config.replay
    if replay is None:
        raise NotFound("this evaluation is not a replay")
    record = _SOURCES[bool(replay.training)].record(replay)
    whole, known = Calls(record.turns), dict[int, str]()
    calls = tuple(
        StoredCall(
            protocol=turn.protocol,
            asked=digest(whole.request(turn), known),
            response=turn.response,
            finish_reason=turn.finish_reason,
        )
        for turn in answered_calls(record)[: replay.calls]
    )
    return StoredCalls(example_hash=record.example_hash, calls=calls)


@dataclass(frozen=True)
class ReplayedPart:
    """The replayed part of a rollout: how many calls, and the first call whose request differed from the original."""

    calls: int
    changed_at: int | None  # index of a turn


def replayed_part(record: RolloutRecord) -> ReplayedPart | None:
    """Return the replayed part; None if the model answered every call itself."""
    given = [turn for turn in record.turns if turn.replayed is not None]
    if not given:
        return None
    changed = next((turn.index for turn in given if turn.replayed is Replayed.CHANGED), None)
    return ReplayedPart(len(given), changed)


@dataclass(frozen=True)
class Original:
    """The original of a replay, for its pages."""

    replay: Replay
    origin: Origin | None  # None if it is gone, or the viewer may not see it


def original_of(user: Caller, evaluation: Evaluation) -> Original | None:
    """Return the original; None if the evaluation is not a replay."""
    stored = evaluation.config.get("replay")
    if not stored:
        return None
    replay = Replay.model_validate(stored)
    try:
        return Original(replay, find_origin(user, replay))
    except NotFound:
        return Original(replay, None)


def replays_of(user: Caller, whole: UUID, **position: int) -> list[Evaluation]:
    """Return the newest replays of a rollout that the user may see.

    whole: the evaluation or training run that the rollout belongs to; position: fields of the Replay that identify the
    rollout.
    """
    rows = Evaluation.objects.filter(replay_of=whole).order_by("-pk")
    of_it = rows.filter(**{f"config__replay__{name}": value for name, value in position.items()})
    if not of_it.exists():  # most rollouts have none: this query is cheaper
        return []
    return list(visible_evaluations(user).filter(pk__in=of_it.values("pk")).order_by("-pk")[:MOST_LISTED])
