"""What a sandbox uses, looked at about once a second: for its API, and for the progress that its run shows."""

from __future__ import annotations

import time

from envhub.protocol.sandboxes.sandboxes import SandboxStats

from workers.broker.interface import Held


class Use:
    """`now` is the last look; its `cpus` are those in use between the last two."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._before: tuple[float, float] | None = None  # CPU seconds, and when that was
        self.now = SandboxStats()

    async def look(self) -> None:
        """Once more."""
        stats, moment = await self._held.stats(), time.monotonic()
        cpus = None
        if stats.cpu_seconds is not None:
            if self._before is not None and moment > self._before[1]:
                cpus = max(0.0, (stats.cpu_seconds - self._before[0]) / (moment - self._before[1]))
            self._before = stats.cpu_seconds, moment
        self.now = SandboxStats(
            memory_bytes=stats.memory_bytes,
            peak_memory_bytes=stats.peak_memory_bytes,
            pids=stats.pids,
            cpu_seconds=stats.cpu_seconds,
            cpus=cpus,
        )

    @property
    def note(self) -> str:
        """In words."""
        return "" if self.now.cpus is None else f"{self.now.cpus:.2f} CPUs"

    @property
    def memory_mb(self) -> int | None:
        """Rounded up."""
        used = self.now.memory_bytes
        return None if used is None else -(-used // 1024**2)
