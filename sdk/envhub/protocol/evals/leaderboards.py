"""The leaderboard of an environment, on the wire: models that were measured in the same way, best first."""

from __future__ import annotations

from envhub.protocol.base import Response, StoredObject
from envhub.protocol.evals.evaluations import EvaluationView


class BoardSettings(Response):
    """What evaluations must share for their scores to be compared; how many rollouts an example has is none of it."""

    key: str  # names the settings in addresses
    title: str  # `0.1.0 · 20 examples · sampling temperature=0.7`
    version: str | None
    split: str
    examples: int | None  # None: all, and the data set's size is not known
    values: StoredObject  # what was given of env_args, taskset, harness, sampling, judges and allow_hosts
    models: int  # that were measured so


class StandingView(Response):
    """One model's place, by its most recent evaluation with these settings."""

    rank: int | None  # None: one example alone was scored, which says nothing about the next one
    examples: int  # with a scored rollout
    evaluation: EvaluationView


class LeaderboardView(Response):
    """The standings under `shown`, one of `settings`; both are empty before a first evaluation has succeeded."""

    environment: str  # owner/name
    shown: BoardSettings | None
    settings: tuple[BoardSettings, ...]  # those of the newest version first, then of the most models
    standings: tuple[StandingView, ...]
    more_settings: bool = False  # whether `settings` leaves out others, of fewer models
    newest_only: int | None = None  # of how many models, where there are more: the others' evaluations are older
