"""Wire types of GPUs: what a worker has and what a run needs from one worker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pydantic import Field

from envhub.protocol.base import Count, Response

MB_PER_GB = 1024


class Gpu(Response):
    """A GPU of a worker. `index` is nvidia-smi's, which equals CUDA's under CUDA_DEVICE_ORDER=PCI_BUS_ID."""

    index: Count
    uuid: str
    name: str
    memory_mb: Count
    free_mb: Count  # measured last while no run of the worker held the GPU


class GpuUse(Response):
    """How much a GPU is used, by whatever program: the share of time in which a kernel runs, and its memory."""

    index: Count
    percent: int | None = Field(default=None, ge=0, le=100)  # None: the driver does not say
    used_mb: Count = 0


class GpuNeed(Response):
    """How many GPUs of one worker a run needs, and how much free memory on each. With `count` 0 it needs no GPU.

    by_host: the number of GPUs on each of several hosts of the worker's cluster, largest first; `count` is their sum.
    """

    count: int = Field(default=0, ge=0)
    memory_mb: int = Field(default=0, ge=0)
    by_host: tuple[Count, ...] = ()

    @property
    def hosts(self) -> int:
        """Number of hosts that the run is spread over."""
        return len(self.by_host) or 1

    def fits(self, memories_mb: Iterable[int]) -> bool:
        """Return whether GPUs with this much free memory each are enough."""
        return sum(memory >= self.memory_mb for memory in memories_mb) >= self.count

    def rest(self, memories_mb: Sequence[int]) -> list[int]:
        """Return `memories_mb` without the tightest fit for this need."""
        fitting = sorted(memory for memory in memories_mb if memory >= self.memory_mb)
        left = list(memories_mb)
        for memory in fitting[: self.count]:
            left.remove(memory)
        return left

    def words(self) -> str:
        """Describe the need, such as "2 GPUs of >= 40 GB"."""
        size = f" of >= {math.ceil(self.memory_mb / MB_PER_GB)} GB" if self.memory_mb else ""
        hosts = f" on {self.hosts} hosts" if self.by_host else ""
        return f"{self.count} {'GPU' if self.count == 1 else 'GPUs'}{size}{hosts}"


def in_words(memories_mb: Iterable[int]) -> str:
    """Format as "1 x 24 GB, 2 x 80 GB" or "none", with the sizes by which GPUs are sold: 24564 MiB is 24 GB."""
    sizes = [round(memory / MB_PER_GB) for memory in memories_mb]
    return ", ".join(f"{sizes.count(size)} x {size} GB" for size in sorted(set(sizes))) or "none"
