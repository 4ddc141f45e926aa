"""Says which repositories are kept here and which have come: versions wait for them (hub.core.needs)."""

from __future__ import annotations

from functools import partial

from envhub.protocol.needs import NeedKind

from hub.core.needs import Arrival, Holder, announce, register_holder
from hub.data import upstream
from hub.data.models import RepositoryKind, Snapshot
from hub.data.queries import pinned

KINDS = {RepositoryKind.DATASET.value: NeedKind.DATA_SET, RepositoryKind.MODEL.value: NeedKind.MODEL}


def register() -> None:
    """Called once, when the app is ready."""
    for kind, need in KINDS.items():
        register_holder(need, Holder(has=partial(_has, kind), may_fetch=upstream.allows))


def _has(kind: str, name: str) -> bool:
    return pinned(kind, name) is not None


def announce_snapshot(snapshot: Snapshot) -> None:
    """Tell on commit: code asks for OWNER/NAME, or for NAME alone."""
    whole = snapshot.repository
    announce(Arrival(KINDS[snapshot.kind], (whole, whole.rpartition("/")[2])))
