"""Wire types of notifications."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from envhub.protocol.base import Number, Request, Response


class NoticeKind(StrEnum):
    """What a notification is about."""

    FINISHED = "finished"
    FAILED = "failed"
    NOTE = "note"
    HUB = "hub"  # a message from the hub itself
    SCORE = "score"  # an evaluation's score crossed a threshold that the user set


class Follows(StrEnum):
    """Which finished runs a user is notified about."""

    OWN = "own"  # runs that the user started
    FAILED = "failed"  # the same, but only failures
    ALL = "all"  # also the runs of the user's teams
    NONE = "none"


class NoticeView(Response):
    """A notification of the caller."""

    id: str
    kind: NoticeKind
    text: str
    detail: str = ""
    url: str = ""  # relative to the hub's address
    created_at: datetime
    read_at: datetime | None = None


class NoticeChoices(Request):
    """Which notifications the caller receives."""

    runs: Follows = Follows.OWN
    notes: bool = True  # about notes on rollouts of what the caller started, and on those with a note of theirs
    mail: bool = False  # also send by mail, to the confirmed address


class NoticeChoicesView(Response):
    """Which notifications the caller receives at present."""

    runs: Follows
    notes: bool
    mail: bool = False


class ScoreWatchRequest(Request):
    """Notify the caller when an evaluation's mean reward is below, or above, a number. There is one watch per model."""

    model: str = Field(default="", max_length=255)  # "owner/name"; "" for any model
    below: Number | None = None
    above: Number | None = None

    @model_validator(mode="after")
    def _names_a_number(self) -> Self:
        if self.below is None and self.above is None:
            raise ValueError("give below or above")
        return self


class ScoreWatchView(Response):
    """One of the caller's watches."""

    id: str
    environment: str  # owner/name
    model: str
    below: float | None
    above: float | None
    created_at: datetime


class ScoreWatches(Response):
    """The caller's watches on one environment."""

    items: tuple[ScoreWatchView, ...]
