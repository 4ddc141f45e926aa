"""Replays: rollouts that begin with the model calls of a stored one, and go on by themselves."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field

from envhub.protocol.base import Count, Request, Response, Sha256, StoredObject


class Replay(Request):
    """Answer the first `calls` model calls of each rollout as those of a stored rollout were; then ask the model.

    The example is the stored rollout's. Its tools, its sandboxes and its judges work again, as in any rollout.
    """

    evaluation: str = Field(max_length=64)  # id
    example: Count
    rollout: int = Field(ge=0, lt=2**15)
    calls: int = Field(ge=0, le=100_000)  # 0: the same example from its beginning

    @classmethod
    def read(cls, text: str) -> Self:
        """EVALUATION/EXAMPLE/ROLLOUT/CALLS. Raises ValueError."""
        parts = dict(zip(("evaluation", "example", "rollout", "calls"), text.strip().split("/"), strict=True))
        return cls.model_validate(parts)

    def __str__(self) -> str:
        return f"{self.evaluation}/{self.example}/{self.rollout}/{self.calls}"


class Replayed(StrEnum):
    """How a call was answered from a stored rollout: it asked what the stored one did, or something else."""

    SAME = "same"
    CHANGED = "changed"


class StoredCall(Response):
    """One answered model call of the stored rollout."""

    protocol: str
    asked: Sha256  # envhub.packaging.asked.digest of its request
    response: StoredObject
    finish_reason: str | None = None


class StoredCalls(Response):
    """What a run is told about the rollout that it replays."""

    example_hash: str
    calls: tuple[StoredCall, ...]
