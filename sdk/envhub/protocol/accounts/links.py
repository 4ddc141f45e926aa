"""Secret read-only links to results, on the wire."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import AwareDatetime, Field, model_validator

from envhub.protocol.base import Count, Request, Response, Slug

MOST_NOTE = 200
LONGEST_DAYS = 3650


class LinkKind(StrEnum):
    """What a link shows."""

    EVALUATION = "evaluation"  # with its rollouts
    ROLLOUT = "rollout"
    COMPARISON = "comparison"  # with the rollouts of what is compared
    TRAINING = "training"


class ShareLinkRequest(Request):
    """Make a link to one evaluation, one of its rollouts, a comparison (several evaluations), or a training run."""

    evaluations: tuple[str, ...] = Field(default=(), max_length=8)
    example: Count | None = None  # of a rollout
    rollout: int | None = Field(default=None, ge=0, lt=2**15)
    training: str = Field(default="", max_length=36)
    days: int | None = Field(default=None, ge=1, le=LONGEST_DAYS)  # that it works; 7 when no time is given
    expires_at: AwareDatetime | None = None
    note: str = Field(default="", max_length=MOST_NOTE)  # for its owner; whoever opens it does not see it

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if bool(self.evaluations) == bool(self.training):
            raise ValueError("name evaluations or a training run")
        if (self.example is None) != (self.rollout is None):
            raise ValueError("a rollout is named by example and rollout")
        if self.example is not None and len(self.evaluations) != 1:
            raise ValueError("a rollout is one of one evaluation")
        if self.days is not None and self.expires_at is not None:
            raise ValueError("days and expires_at exclude each other")
        return self

    @property
    def kind(self) -> LinkKind:
        """What it is a link to."""
        if self.training:
            return LinkKind.TRAINING
        if self.example is not None:
            return LinkKind.ROLLOUT
        return LinkKind.EVALUATION if len(self.evaluations) == 1 else LinkKind.COMPARISON


class ShareLinkView(Response):
    """A link without its secret."""

    id: str
    owner: Slug
    kind: LinkKind
    subject: str  # in words
    evaluations: tuple[str, ...] = ()
    example: int | None = None
    rollout: int | None = None
    training: str | None = None
    note: str = ""
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    opened: int = 0  # times
    opened_at: datetime | None = None  # the last time


class NewShareLink(Response):
    """A link that was just made. Its address is shown this once."""

    link: ShareLinkView
    url: str
