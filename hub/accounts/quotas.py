"""How much an owner may use: what an administrator has set for it, else the hub's settings for everybody."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from envhub.protocol.runs import RunKind

from hub.accounts.models import OwnerQuota

Figure = TypeVar("Figure", int, float)


@dataclass(frozen=True)
class Limits:
    """What applies to one owner; None: no limit."""

    running: int | None  # its own, for runs of each kind
    has_own_running: bool  # else the hub's apply, by kind
    gpu_hours: float | None
    tokens: int | None
    storage_gb: float | None

    def running_of(self, kind: RunKind) -> int | None:
        """Return how many runs of a kind workers may have for the owner at once."""
        limits: dict[RunKind, int] = settings.HUB.owner_running
        return self.running if self.has_own_running else limits.get(kind)


def own_quotas() -> QuerySet[OwnerQuota]:
    """Return the quotas that administrators have set, by the owner's name."""
    return OwnerQuota.objects.select_related("owner").order_by("owner__slug")


def limits_of(owner: UUID) -> Limits:
    """Return what applies to an owner, with one query."""
    return limits_of_each([owner])[owner]


def limits_of_each(owners: Iterable[UUID]) -> dict[UUID, Limits]:
    """Return what applies to each of these owners, with one query."""
    keys = list(owners)
    own = OwnerQuota.objects.in_bulk(keys)
    return {key: _limits(own.get(key)) for key in keys}


def own_running(owners: Collection[UUID] | None = None) -> dict[UUID, int | None]:
    """Return the limits of runs at once that owners have of their own; None: no limit."""
    rows = OwnerQuota.objects.filter(running__isnull=False)
    rows = rows if owners is None else rows.filter(pk__in=owners)
    return {owner: running or None for owner, running in rows.values_list("pk", "running")}


def _limits(own: OwnerQuota | None) -> Limits:
    hub = settings.HUB
    return Limits(
        running=own.running or None if own else None,
        has_own_running=own is not None and own.running is not None,
        gpu_hours=_limit(own.gpu_hours if own else None, hub.owner_gpu_hours),
        tokens=_limit(own.tokens if own else None, hub.owner_tokens),
        storage_gb=_limit(own.storage_gb if own else None, hub.owner_quota_gb),
    )


def _limit(own: Figure | None, of_all: Figure) -> Figure | None:
    return (of_all if own is None else own) or None
