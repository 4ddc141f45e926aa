"""GPUs on the wire: what a worker has, and what a run needs of one worker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pydantic import Field

from envhub.protocol.base import Count, Response

MB_PER_GB = 1024


class Gpu(Response):
    """One GPU of a worker. `index` is nvidia-smi's, which is CUDA's under CUDA_DEVICE_ORDER=PCI_BUS_ID."""

    index: Count
    uuid: str
    name: str
    memory_mb: Count
    free_mb: Count  # when it was last looked at, while no run of the worker held it


class GpuNeed(Response):
    """So many GPUs of one worker, each with so much memory to spare. count 0: no GPU.

    by_host: the GPUs on each of several hosts of the worker's cluster, the largest number first, `count` in all.
    """

    count: int = Field(default=0, ge=0)
    memory_mb: int = Field(default=0, ge=0)
    by_host: tuple[Count, ...] = ()

    @property
    def hosts(self) -> int:
        """Over how many hosts the run is spread."""
        return len(self.by_host) or 1

    def fits(self, memories_mb: Iterable[int]) -> bool:
        """Whether GPUs with so much free memory are enough."""
        return sum(memory >= self.memory_mb for memory in memories_mb) >= self.count

    def rest(self, memories_mb: Sequence[int]) -> list[int]:
        """What is left of `memories_mb` after the tightest fit was taken."""
        fitting = sorted(memory for memory in memories_mb if memory >= self.memory_mb)
        left = list(memories_mb)
        for memory in fitting[: self.count]:
            left.remove(memory)
        return left

    def words(self) -> str:
        """ "2 GPUs of >= 40 GB"."""
        size = f" of >= {math.ceil(self.memory_mb / MB_PER_GB)} GB" if self.memory_mb else ""
        hosts = f" on {self.hosts} hosts" if self.by_host else ""
        return f"{self.count} {'GPU' if self.count == 1 else 'GPUs'}{size}{hosts}"


def in_words(memories_mb: Iterable[int]) -> str:
    """ "1 x 24 GB, 2 x 80 GB", or "none"; sizes as they are sold: 24564 MiB are 24 GB."""
    sizes = [round(memory / MB_PER_GB) for memory in memories_mb]
    return ", ".join(f"{sizes.count(size)} x {size} GB" for size in sorted(set(sizes))) or "none"
