"""A line of the look-out."""

from __future__ import annotations

from envhub.protocol.clusters import ClusterHost
from pydantic import BaseModel


class Seen(BaseModel):
    """What it has just seen."""

    hosts: tuple[ClusterHost, ...]
