"""What the sandboxes of a run may use together, and each of them."""

from __future__ import annotations

from dataclasses import dataclass

from workers.broker.interface import Wish
from workers.sandbox import Limits

MIB = 1024 * 1024


@dataclass(frozen=True)
class BrokerLimits:
    """A wish above a limit gets the limit. `memory_mb` and so on are defaults, `most_...` are limits."""

    at_once: int = 256  # of a run, living or waiting
    of_a_rollout: int = 32
    cpus: float = 1.0
    memory_mb: int = 1024
    disk_mb: int = 1024
    lifetime_s: float = 3600.0
    most_cpus: float = 4.0
    most_memory_mb: int = 4096
    most_disk_mb: int = 4096
    most_lifetime_s: float = 24 * 3600.0
    pids: int = 512
    exec_s: float = 600.0  # a command for which its client says nothing
    more: str = "have WORKER_SANDBOXES_OF_A_RUN raised"  # what helps who wants more at once

    def of(self, wish: Wish) -> Limits:
        """The limits of the box for that wish. Its layer lies in memory: disk is on top of what programs get."""
        disk = min(wish.disk_mb or self.disk_mb, self.most_disk_mb)
        memory = min(wish.memory_mb or self.memory_mb, self.most_memory_mb)
        return Limits(
            memory_bytes=(memory + disk) * MIB,
            disk_bytes=disk * MIB,
            pids=self.pids,
            cpus=min(wish.cpus or self.cpus, self.most_cpus),
            files=200_000,
            open_files=65_536,
            exec_seconds=self.exec_s,
            lifetime_seconds=min(wish.lifetime_s or self.lifetime_s, self.most_lifetime_s),
        )
