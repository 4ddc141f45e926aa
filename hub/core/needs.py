"""Connects needs with what has arrived: apps that store things announce them here, and the registry listens.

Neither side knows the other: both register in AppConfig.ready(), and refer to things by name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction
from envhub.protocol.registry.needs import Need, NeedKind

if TYPE_CHECKING:  # core must not import apps
    from hub.accounts.models import User

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Borrower:
    """Somebody who runs another owner's environment."""

    owner_id: UUID  # the owner of the run
    user: User


def _nothing(names: Collection[str], owner_id: UUID, borrower: Borrower | None) -> Collection[str]:
    return ()


def _everything(name: str, owner_id: UUID, borrower: Borrower) -> bool:
    return True


@dataclass(frozen=True)
class Holder:
    """Answers, by name, what the hub has of one kind."""

    has: Callable[[str, UUID], bool]  # whether it is here, for the environments of this owner
    may_fetch: Callable[[str], bool]  # whether the hub would fetch it on first use
    # Whether what this owner's environments use may also serve others.
    lends: Callable[[str, UUID, Borrower], bool] = _everything
    # Which of many names the runs of a borrower (None: of the owner) could not have, for this owner's environments.
    lacking: Callable[[Collection[str], UUID, Borrower | None], Collection[str]] = _nothing


@dataclass(frozen=True)
class Arrival:
    """Something has arrived under each of these names; `owner_id` is its owner, None if it is everybody's."""

    kind: NeedKind
    names: tuple[str, ...]
    owner_id: UUID | None = None


@dataclass(frozen=True)
class HostSetting:
    """A setting with which the operator allows hosts. It changes only while the hub is down."""

    setting: str
    entries: Callable[[], Sequence[str]]
    kinds: frozenset[NeedKind]
    opens: Callable[[str, str], bool]  # (entry, name of a need of these kinds)


@dataclass(frozen=True)
class Use:
    """Records that a run has read something that the hub stores."""

    run_id: UUID
    kind: NeedKind
    name: str
    revision: str = ""


Listener = Callable[[Arrival], None]
UseListener = Callable[[Use], None]
_holders: dict[NeedKind, Holder] = {}
_listeners: list[Listener] = []
_use_listeners: list[UseListener] = []
_host_settings: dict[str, HostSetting] = {}


def register_holder(kind: NeedKind, holder: Holder) -> None:
    """Register who answers for a kind; registering twice is a programming error."""
    if kind in _holders:
        raise RuntimeError(f"somebody holds needs of kind {kind.value} already")
    _holders[kind] = holder


def register_host_setting(gate: HostSetting) -> None:
    """Register a setting; registering twice is a programming error."""
    if gate.setting in _host_settings:
        raise RuntimeError(f"{gate.setting} is a gate already")
    _host_settings[gate.setting] = gate


def host_settings() -> tuple[HostSetting, ...]:
    """Return every setting that allows hosts."""
    return tuple(_host_settings.values())


def has(need: Need, owner_id: UUID) -> bool:
    """Return whether the hub has this now for the environments of an owner."""
    holder = _holders.get(need.kind)
    return holder is not None and holder.has(need.name, owner_id)


def can_have(need: Need, owner_id: UUID) -> bool:
    """Return whether the hub has this for the environments of an owner, or would fetch it on first use."""
    holder = _holders.get(need.kind)
    return holder is not None and (holder.has(need.name, owner_id) or holder.may_fetch(need.name))


def lends(need: Need, owner_id: UUID, borrower: Borrower) -> bool:
    """Return whether what the environments of an owner use is also available to others who run them."""
    holder = _holders.get(need.kind)
    return holder is None or holder.lends(need.name, owner_id, borrower)


def lacking(kind: NeedKind, names: Collection[str], owner_id: UUID, borrower: Borrower | None) -> Collection[str]:
    """Return which of these a run of an owner's environment could not have. Kinds without an answer lack nothing."""
    holder = _holders.get(kind)
    return () if holder is None else holder.lacking(names, owner_id, borrower)


def listen(listener: Listener) -> None:
    """Call `listener` for every arrival, after the transaction that made it."""
    _listeners.append(listener)


def announce(arrival: Arrival) -> None:
    """Announce an arrival on commit. Errors of listeners never reach the caller."""

    def tell() -> None:
        for listener in _listeners:
            try:
                listener(arrival)
            except Exception:
                logger.exception("nobody was told of the %s %s", arrival.kind.value, arrival.names)

    transaction.on_commit(tell)


def listen_to_uses(listener: UseListener) -> None:
    """Call `listener` whenever a run reads something, which may often be the same thing."""
    _use_listeners.append(listener)


def note_use(use: Use) -> None:
    """Report what a run has read. Errors of listeners never fail the reading."""
    for listener in _use_listeners:
        try:
            listener(use)
        except Exception:
            logger.exception("it was not noted that run %s uses the %s %s", use.run_id, use.kind.value, use.name)
