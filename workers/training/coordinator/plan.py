"""What is sampled: groups of rollouts, numbered in the order in which they were drawn, and their records when done."""

from __future__ import annotations

from envhub.protocol.base import JsonObject, Split
from envhub.protocol.evals.rollouts import RolloutRecord
from pydantic import BaseModel, ConfigDict


class GroupPlan(BaseModel):
    """One group of a training run. `number` is unique in the run and never used again."""

    model_config = ConfigDict(frozen=True)

    number: int
    label: str  # of the environment
    example: int
    n: int
    temperature: float


class FinishedGroup(BaseModel):
    """A group with a record for each rollout."""

    model_config = ConfigDict(frozen=True)

    plan: GroupPlan
    records: tuple[RolloutRecord, ...]


class RolloutRequest(BaseModel):
    """A group as an environment is asked for it: of training, or of an evaluation between two steps."""

    model_config = ConfigDict(frozen=True)

    name: str  # unique in the run; tries append to it
    example: int
    n: int
    split: Split
    sampling: JsonObject
    forced: JsonObject = {}  # what every request to the policy says, whatever the environment asked for
    seed: str = ""  # where the seeds of its requests come from; empty: none are sent
