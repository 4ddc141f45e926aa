"""The GPUs of this worker and their holders: a run, or an engine that serves models. No two share a GPU."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from envhub.protocol.placing.gpus import Gpu, GpuNeed, GpuUse

from workers.runs.gpu_detection import NONE, see_gpus

logger = logging.getLogger(__name__)
EVERY_S = 30.0


class GpuPool:
    """Lives in the worker's main process. `known` is what the worker reports to the hub."""

    def __init__(self, wanted: str) -> None:
        self.known: tuple[Gpu, ...] = ()
        self.use: tuple[GpuUse, ...] = ()  # when last seen
        self._wanted = wanted
        self._now: dict[int, Gpu] = {}  # state when last seen free; only those held if the tool does not answer
        self._held: set[int] = set()
        self.answers = True  # whether the driver did when last asked; if not, nothing is lent

    @property
    def free(self) -> tuple[Gpu, ...]:
        """GPUs that nobody holds, with the memory that other programs leave free."""
        return tuple(gpu for index, gpu in sorted(self._now.items()) if index not in self._held and self.answers)

    @property
    def busy(self) -> tuple[Gpu, ...]:
        """GPUs that a run or an engine holds."""
        return tuple(gpu for gpu in self.known if gpu.index in self._held)

    def take(self, need: GpuNeed) -> tuple[Gpu, ...] | None:
        """Reserve the tightest GPUs that fit the need; None if not enough are free. A count of 0 reserves none."""
        fitting = sorted((gpu for gpu in self.free if gpu.free_mb >= need.memory_mb), key=lambda gpu: gpu.free_mb)
        if len(fitting) < need.count:
            return None
        taken = tuple(sorted(fitting[: need.count], key=lambda gpu: gpu.index))
        self._held.update(gpu.index for gpu in taken)
        return taken

    def give_back(self, gpus: Iterable[Gpu]) -> None:
        """Release GPUs."""
        self._held.difference_update(gpu.index for gpu in gpus)

    async def look(self) -> bool:
        """Ask the driver; return whether the set of GPUs has changed.

        While a driver does not answer, those that nobody holds are not lent.
        """
        gpus, self.use = await see_gpus(self._wanted)
        seen = {gpu.index: gpu for gpu in gpus}
        self.answers = bool(seen)
        # A held GPU shows its run's use of memory, so keep the figures from before; they apply again later.
        held = {index: gpu for index, gpu in self._now.items() if index in self._held}
        self._now = {index: held.get(index, gpu) for index, gpu in seen.items()} if seen else held
        if not seen or {gpu.uuid for gpu in seen.values()} == {gpu.uuid for gpu in self.known}:
            return False
        self.known = tuple(seen.values())
        return True

    async def keep_looking(self, on_change: Callable[[], None]) -> None:
        """Look periodically until cancelled."""
        while self._wanted != NONE:
            await asyncio.sleep(EVERY_S)
            if await self.look():
                logger.info("this worker's GPUs are now %s", ", ".join(gpu.name for gpu in self.known))
                on_change()
