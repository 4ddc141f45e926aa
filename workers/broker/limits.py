"""Limits on the sandboxes of a run: on all of them together and on each one."""

from __future__ import annotations

from dataclasses import dataclass

from workers.broker.interface import Wish
from workers.broker.room import Room
from workers.sandbox import Limits

MIB = 1024 * 1024
OF_A_ROLLOUT = Room(sandboxes=32)


@dataclass(frozen=True)
class BrokerLimits:
    """Defaults (`memory_mb` and so on) and upper limits (`most_...`). A wish above a limit gets the limit."""

    at_once: int = 256  # per run, running or waiting
    of_a_rollout: Room = OF_A_ROLLOUT
    cpus: float = 1.0
    memory_mb: int = 1024
    disk_mb: int = 1024
    lifetime_s: float = 3600.0
    most_cpus: float = 4.0
    most_memory_mb: int = 4096
    most_disk_mb: int = 4096
    most_lifetime_s: float = 24 * 3600.0
    pids: int = 512
    exec_s: float = 600.0  # for a command whose client sets no timeout
    more: str = "have WORKER_SANDBOXES_OF_A_RUN raised"  # how a user gets more at once, for the error's hint

    def of(self, wish: Wish) -> Limits:
        """Return the box limits for a wish.

        The writable layer lies in memory, so the memory limit is memory plus disk.
        """
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

    def room_for(self, wish: Wish) -> Room:
        """Return what a wish takes from the limits of its rollout, its run and its host."""
        limits = self.of(wish)
        return Room(1, -(-limits.memory_bytes // MIB), limits.cpus or self.cpus)
