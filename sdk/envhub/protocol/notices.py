"""Notifications on the wire."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from envhub.protocol.base import Request, Response


class NoticeKind(StrEnum):
    """What a notification tells."""

    FINISHED = "finished"
    FAILED = "failed"
    NOTE = "note"
    HUB = "hub"  # the hub itself has something to say


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
