"""Amounts of what sandboxes take from a host: how many there are, what memory they may fill, what CPUs they may use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

KINDS = ("sandboxes", "memory_mb", "cpus")
ROUNDING = 1e-6  # 0.8 CPUs three times are a little more than 2.4


@dataclass(frozen=True)
class Room:
    """What some sandboxes may use together, or the most that they may. A limit of `inf` is none.

    Memory includes disk, because what a sandbox writes is in memory.
    """

    sandboxes: float = inf
    memory_mb: float = inf
    cpus: float = inf

    @classmethod
    def sum(cls, rooms: Iterable[Room]) -> Room:
        """Add up what some sandboxes take."""
        listed = list(rooms)
        return cls(*(sum(getattr(one, kind) for one in listed) for kind in KINDS))

    def lacks(self, used: Room, wanted: Room) -> str:
        """Describe what this limit lacks for `wanted` beside what is `used`; "" if it has room for it."""
        for kind in KINDS:
            limit, taken, more = (getattr(one, kind) for one in (self, used, wanted))
            if taken + more > limit + ROUNDING:
                return _described(kind, limit, taken, more)
        return ""

    def share(self, used: Room) -> float:
        """Return the largest of the shares of this limit that are used: of its number, its memory or its CPUs."""
        return max(used.sandboxes / self.sandboxes, used.memory_mb / self.memory_mb, used.cpus / self.cpus)


NOTHING = Room(0, 0, 0)


def _described(kind: str, limit: float, taken: float, more: float) -> str:
    if kind == "sandboxes":
        return f"{taken:g} of {limit:g} sandboxes exist"
    unit = "MB of memory and disk" if kind == "memory_mb" else "CPUs"
    beside = f", of which {taken:g} are taken" if taken else ""
    return f"it asks for {more:g} of {limit:g} {unit}{beside}"
