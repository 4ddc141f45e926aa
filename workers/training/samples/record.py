"""Convert a recorded rollout to the trainer's: keep the trainable policy turns, token for token.

Used by the coordinator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, TurnAgent
from envhub.protocol.evals.rollouts import Turn as TurnRecord

from workers.training.samples.arrays import floats, ids
from workers.training.samples.errors import UntrainableRecord
from workers.training.samples.rollout import Part, Rollout, Turn


def to_rollout(record: RolloutRecord, *, group: int, environment: str, temperature: float = 1.0) -> Rollout:
    """Convert a record. Raises UntrainableRecord.

    If some turns have their own reward (or advantage), the others count as 0.
    """
    if temperature <= 0:
        raise ValueError(f"a temperature of {temperature} has no policy gradient; sample training rollouts above 0")
    kept = tuple(turn for turn in record.turns if is_trainable(turn))
    failed = record.outcome is Outcome.FAILED or record.reward is None or not math.isfinite(record.reward)
    return Rollout(
        group=group,
        example=record.example,
        index=record.rollout,
        environment=environment,
        turns=() if failed else tuple(map(_turn, kept)),
        reward=None if failed else record.reward,
        advantage=None if failed else record.advantage,
        turn_advantages=None if failed else _advantages(record, kept),
        turn_rewards=None if failed else _rewards(record, kept),
        parts=None if failed else _parts(kept),
        metrics=dict(record.metrics),
        truncated=record.outcome is Outcome.TRUNCATED,
        failed=failed,
        temperature=temperature,
    )


def is_trainable(turn: TurnRecord) -> bool:
    """Return whether a turn's completion may be trained: a successful policy call, sampled by the policy itself."""
    return turn.route == "policy" and turn.trainable and turn.status == 200 and not turn.error


def _turn(record: TurnRecord) -> Turn:
    tokens = record.tokens
    if tokens is None or not tokens.prompt_ids:
        raise UntrainableRecord(
            f"turn {record.index} has no token ids; the engine must return them (return_token_ids) for training"
        )
    count = len(tokens.completion_ids)
    if len(tokens.logprobs) != count or not np.isfinite(tokens.logprobs).all():
        raise UntrainableRecord(
            f"turn {record.index} has {len(tokens.logprobs)} logprobs for {count} sampled tokens, or some that are not "
            "finite; the engine must return the sampler's logprob of each (logprobs, processed)"
        )
    if record.policy_version is None:
        raise UntrainableRecord(f"turn {record.index} names no policy version; serve weights under a version")
    versions = ids([record.policy_version] * count)
    return Turn(
        ids(tokens.prompt_ids), ids(tokens.completion_ids), floats(tokens.logprobs), versions, record.finish_reason
    )


def _parts(kept: Sequence[TurnRecord]) -> tuple[Part | None, ...] | None:
    """Return the agent's part that each kept turn belongs to; None if no turn names an agent."""
    if all(turn.agent is None for turn in kept):
        return None
    return tuple(_part(turn.agent) for turn in kept)


def _part(agent: TurnAgent | None) -> Part | None:
    if agent is None or agent.reward is None:
        return None
    return Part(agent.id, agent.name, agent.task, agent.reward)


def _advantages(record: RolloutRecord, kept: Sequence[TurnRecord]) -> tuple[float, ...] | None:
    """Return the environment's own advantage of each kept turn; None if it gives none."""
    if all(turn.advantage is None for turn in record.turns):
        return None
    return tuple(turn.advantage or 0.0 for turn in kept)


def _rewards(record: RolloutRecord, kept: Sequence[TurnRecord]) -> tuple[float, ...] | None:
    """Return a reward for each kept turn; None if no turn of a trained agent has one.

    The reward of a turn that is not trained goes to its agent's last trained turn before it, or to the first.
    """
    places = {turn.index: place for place, turn in enumerate(kept)}
    last = {_agent_of(turn): places[turn.index] for turn in reversed(kept)}  # the first one, until another comes
    own = [turn for turn in record.turns if _agent_of(turn) in last]
    if all(turn.reward is None for turn in own):
        return None
    aligned = [0.0] * len(kept)
    for turn in own:
        last[_agent_of(turn)] = place = places.get(turn.index, last[_agent_of(turn)])
        aligned[place] += turn.reward or 0.0
    return tuple(aligned)


def _agent_of(turn: TurnRecord) -> str:
    return turn.agent.id if turn.agent is not None else ""
