"""Wire types of the quotas that administrators set for one owner."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from envhub.protocol.base import Count, Request, Response, Slug

Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Tokens = Annotated[int, Field(ge=0, le=10**15)]


class QuotaRequest(Request):
    """An owner's own quota. None: the hub's figure for everybody; 0: no limit."""

    running: Count | None = None  # runs of each kind that workers may have at once
    gpu_hours: Amount | None = None  # of 30 days
    tokens: Tokens | None = None  # of 30 days
    storage_gb: Amount | None = None  # 10^9 bytes


class QuotaView(Response):
    """An owner's own quota, as in QuotaRequest."""

    owner: Slug
    running: int | None = None
    gpu_hours: float | None = None
    tokens: int | None = None
    storage_gb: float | None = None
    changed_at: datetime | None = None  # None: nothing is set


class QuotaViews(Response):
    """The owners with a quota of their own, by name."""

    quotas: tuple[QuotaView, ...]
