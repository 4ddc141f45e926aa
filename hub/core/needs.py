"""Where what is lacking meets what has come: apps that keep things say here what they have, the registry listens.

The two know nothing of each other: both register in AppConfig.ready(), and tell by name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from envhub.protocol.needs import Need, NeedKind

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """Knows, by name, what the hub has of one kind."""

    has: Callable[[str], bool]  # it is here
    may_fetch: Callable[[str], bool]  # it is not, but the first who asks makes the hub fetch it


@dataclass(frozen=True)
class Arrival:
    """Something has come under each of these names; `owner_id` is whose it is, None when everybody's."""

    kind: NeedKind
    names: tuple[str, ...]
    owner_id: UUID | None = None


Listener = Callable[[Arrival], None]
_holders: dict[NeedKind, Holder] = {}
_listeners: list[Listener] = []


def register_holder(kind: NeedKind, holder: Holder) -> None:
    """Make known who has things of a kind; twice is a programming error."""
    if kind in _holders:
        raise RuntimeError(f"somebody holds needs of kind {kind.value} already")
    _holders[kind] = holder


def has(need: Need) -> bool:
    """Whether the hub has this now."""
    holder = _holders.get(need.kind)
    return holder is not None and holder.has(need.name)


def can_have(need: Need) -> bool:
    """Whether the hub has this, or would fetch it for the first who asks."""
    holder = _holders.get(need.kind)
    return holder is not None and (holder.has(need.name) or holder.may_fetch(need.name))


def listen(listener: Listener) -> None:
    """Call `listener` with every arrival, after the transaction that made it."""
    _listeners.append(listener)


def announce(arrival: Arrival) -> None:
    """Say on commit that something has come. What listeners make of it never fails whoever brought it."""

    def tell() -> None:
        for listener in _listeners:
            try:
                listener(arrival)
            except Exception:
                logger.exception("nobody was told of the %s %s", arrival.kind.value, arrival.names)

    transaction.on_commit(tell)
