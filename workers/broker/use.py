"""The resource use of a sandbox, measured about once a second for its API and for the progress of its run."""

from __future__ import annotations

import time

from envhub.protocol.sandboxes.sandboxes import SandboxStats

from workers.broker.interface import Held


class Use:
    """The latest measurement is `now`; its `cpus` is the average between the last two measurements."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._before: tuple[float, float] | None = None  # CPU seconds and the time of that measurement
        self.now = SandboxStats()

    async def look(self) -> None:
        """Take a new measurement."""
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
    def cpu_seconds(self) -> float:
        """CPU time since the sandbox began, as last measured."""
        return 0.0 if self._before is None else self._before[0]

    @property
    def note(self) -> str:
        """CPU use as text for the run's progress; "" while unknown."""
        return "" if self.now.cpus is None else f"{self.now.cpus:.2f} CPUs"

    @property
    def memory_mb(self) -> int | None:
        """Memory in use, rounded up; None while unknown."""
        used = self.now.memory_bytes
        return None if used is None else -(-used // 1024**2)
