"""Where what is lacking meets what has come: apps that keep things say here what they have, the registry listens.

The two know nothing of each other: both register in AppConfig.ready(), and tell by name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction
from envhub.protocol.registry.needs import Need, NeedKind

if TYPE_CHECKING:  # core knows no apps
    from hub.accounts.models import User

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Borrower:
    """Who runs another owner's environment."""

    owner_id: UUID  # whose run it is
    user: User


def _everything(name: str, owner_id: UUID, borrower: Borrower) -> bool:
    return True


@dataclass(frozen=True)
class Holder:
    """Knows, by name, what the hub has of one kind."""

    has: Callable[[str, UUID], bool]  # it is here, for the environments of that owner
    may_fetch: Callable[[str], bool]  # it is not, but the first who asks makes the hub fetch it
    lends: Callable[[str, UUID, Borrower], bool] = _everything  # what that owner's environments use serves others, too


@dataclass(frozen=True)
class Arrival:
    """Something has come under each of these names; `owner_id` is whose it is, None when everybody's."""

    kind: NeedKind
    names: tuple[str, ...]
    owner_id: UUID | None = None


@dataclass(frozen=True)
class Gate:
    """A setting by whose entries the operator lets hosts through. It changes only while the hub is down."""

    setting: str
    entries: Callable[[], Sequence[str]]
    kinds: frozenset[NeedKind]
    opens: Callable[[str, str], bool]  # (entry, name of a need of these kinds)


@dataclass(frozen=True)
class Use:
    """A run has read something that the hub keeps."""

    run_id: UUID
    kind: NeedKind
    name: str
    revision: str = ""


Listener = Callable[[Arrival], None]
UseListener = Callable[[Use], None]
_holders: dict[NeedKind, Holder] = {}
_listeners: list[Listener] = []
_use_listeners: list[UseListener] = []
_gates: dict[str, Gate] = {}


def register_holder(kind: NeedKind, holder: Holder) -> None:
    """Make known who has things of a kind; twice is a programming error."""
    if kind in _holders:
        raise RuntimeError(f"somebody holds needs of kind {kind.value} already")
    _holders[kind] = holder


def register_gate(gate: Gate) -> None:
    """Make a setting known; twice is a programming error."""
    if gate.setting in _gates:
        raise RuntimeError(f"{gate.setting} is a gate already")
    _gates[gate.setting] = gate


def gates() -> tuple[Gate, ...]:
    """Every setting that lets hosts through."""
    return tuple(_gates.values())


def has(need: Need, owner_id: UUID) -> bool:
    """Whether the hub has this now for the environments of an owner."""
    holder = _holders.get(need.kind)
    return holder is not None and holder.has(need.name, owner_id)


def can_have(need: Need, owner_id: UUID) -> bool:
    """Whether the hub has this for the environments of an owner, or would fetch it for the first who asks."""
    holder = _holders.get(need.kind)
    return holder is not None and (holder.has(need.name, owner_id) or holder.may_fetch(need.name))


def lends(need: Need, owner_id: UUID, borrower: Borrower) -> bool:
    """Whether what the environments of an owner use is there for those who run them as well."""
    holder = _holders.get(need.kind)
    return holder is None or holder.lends(need.name, owner_id, borrower)


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


def listen_to_uses(listener: UseListener) -> None:
    """Call `listener` whenever a run reads something, often for the same."""
    _use_listeners.append(listener)


def note_use(use: Use) -> None:
    """Say what a run has read. What listeners make of it never fails the reading."""
    for listener in _use_listeners:
        try:
            listener(use)
        except Exception:
            logger.exception("it was not noted that run %s uses the %s %s", use.run_id, use.kind.value, use.name)
