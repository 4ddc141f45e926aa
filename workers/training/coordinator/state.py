"""What the coordinator needs to go on after a batch: in the journal entry of that batch, so both are one commit."""

from __future__ import annotations

from envhub.protocol.base import JsonObject
from pydantic import BaseModel, ConfigDict

from workers.training.coordinator.plan import GroupPlan
from workers.training.journal.batch import StepBatch
from workers.training.journal.reader import JournalReader

META = "coordinator"


class CoordinatorState(BaseModel):
    """After the batch of `step` was cut. `open`: groups begun and in no batch yet, finished or not."""

    model_config = ConfigDict(frozen=True)

    step: int = 0
    next_group: int = 0
    cursor: JsonObject = {}
    open: tuple[GroupPlan, ...] = ()
    difficulty: dict[str, dict[str, list[int]]] = {}


def state_of(batch: StepBatch) -> CoordinatorState:
    """The state in a batch's meta."""
    return CoordinatorState.model_validate(batch.meta[META])


def last_state(journal: JournalReader) -> CoordinatorState:
    """Where the journal ends; a fresh state for an empty one. Raises JournalError."""
    steps = journal.steps()
    return state_of(journal.read(steps[-1])) if steps else CoordinatorState()
