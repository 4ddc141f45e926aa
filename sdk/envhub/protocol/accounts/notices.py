"""Notifications on the wire."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from envhub.protocol.base import Number, Request, Response


class NoticeKind(StrEnum):
    """What a notification tells."""

    FINISHED = "finished"
    FAILED = "failed"
    NOTE = "note"
    HUB = "hub"  # the hub itself has something to say
    SCORE = "score"  # of an evaluation, beyond what the user has named


class Follows(StrEnum):
    """Of which runs a user is told how they ended."""

    OWN = "own"  # those that the user has started
    FAILED = "failed"  # the same, only when they fail
    ALL = "all"  # those of the user's teams too
    NONE = "none"


class NoticeView(Response):
    """A notification of the caller."""

    id: str
    kind: NoticeKind
    text: str
    detail: str = ""
    url: str = ""  # below the hub's own address
    created_at: datetime
    read_at: datetime | None = None


class NoticeChoices(Request):
    """What the caller wants to be told."""

    runs: Follows = Follows.OWN
    notes: bool = True  # on rollouts of evaluations that the caller has started
    mail: bool = False  # also by mail, to the confirmed address


class NoticeChoicesView(Response):
    """The same, as it is now."""

    runs: Follows
    notes: bool
    mail: bool = False


class ScoreWatchRequest(Request):
    """Tell the caller when an evaluation's mean reward is below, or above, a number. One watch for each model."""

    model: str = Field(default="", max_length=255)  # "owner/name"; "": any
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
    """The caller's watches of one environment."""

    items: tuple[ScoreWatchView, ...]
