"""For which owners the request at hand acts: the first that its rights were asked about, and who is given something.
The audit log reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from uuid import UUID

from hub.accounts.models import Owner


@dataclass
class Acting:
    """None while nobody has asked."""

    owner_id: UUID | None = None
    owner_slug: str = ""
    receivers: dict[UUID, str] = field(default_factory=dict)  # slugs of owners that are given something


_acting: ContextVar[Acting | None] = ContextVar("acting", default=None)


@contextmanager
def noting_owner() -> Iterator[Acting]:
    """Around one request."""
    acting = Acting()
    before = _acting.set(acting)
    try:
        yield acting
    finally:
        _acting.reset(before)


def note_owner(owner: Owner) -> None:
    """Called where rights are checked, and where an owner is made or joined. Later ones count for nothing."""
    acting = _acting.get()
    if acting is not None and acting.owner_id is None:
        acting.owner_id, acting.owner_slug = owner.pk, owner.slug


def note_receiver(owner: Owner) -> None:
    """Called where something of another owner becomes this one's: both hear of it."""
    acting = _acting.get()
    if acting is not None:
        acting.receivers[owner.pk] = owner.slug
