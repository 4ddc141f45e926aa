"""Plans a training run over several hosts: learner processes, engines, and the GPUs of each host.

The hub uses it to ask a worker's cluster for hosts, and the worker to place the run. GPUs count only if the run has
any: on a cluster without GPUs each learner process and each engine gets CPUs instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.training.trainer import Engine, TrainerTable


@dataclass(frozen=True)
class ClusterSplit:
    """How a run is spread over hosts. `engine_gpus_each` is 0 for the torch engine, which has no GPU."""

    hosts: int
    ranks: int  # learner processes with one GPU each
    ranks_per_host: int
    engines: int  # replicas
    engine_gpus_each: int
    extra: int = 0  # engines on other hosts with room, if there are any; numbered after the others
    engine_hosts: int = 1  # hosts of each engine, with equal shares of its GPUs

    @property
    def count(self) -> int:
        """GPUs over all hosts."""
        return sum(self.gpus_by_host)

    @property
    def gpus_by_host(self) -> tuple[int, ...]:
        """GPUs on each host, the largest number first."""
        return tuple(
            self.ranks_per_host + self.engine_parts(host) * self.engine_gpus_each // self.engine_hosts
            for host in range(self.hosts)
        )

    def hosts_of(self, engine: int) -> tuple[int, ...]:
        """Return the hosts of an engine, the one that answers first. The parts of all engines go round the hosts."""
        first = engine * self.engine_hosts
        return tuple(part % self.hosts for part in range(first, first + self.engine_hosts))

    def engine_parts(self, host: int) -> int:
        """Return how many engines have a part on a host."""
        return len(range(host, self.engines * self.engine_hosts, self.hosts))

    def need(self, memory_mb: int = 0) -> GpuNeed:
        """Return the need for a cluster whose hosts have GPUs."""
        return GpuNeed(count=self.count, memory_mb=memory_mb, by_host=self.gpus_by_host)

    def words(self) -> str:
        """Describe the plan: "on 2 hosts: 4 learner processes, 2 engines of 2 GPUs"."""
        engines = _number(self.engines, "engine")
        if self.engine_gpus_each:
            engines += f" of {_number(self.engine_gpus_each, 'GPU')}"
        if self.engine_hosts > 1:
            engines += f"{' over' if self.engine_gpus_each else ' of'} {self.engine_hosts} hosts"
        extra = f" and at most {self.extra} more where there is room" if self.extra else ""
        return f"on {_number(self.hosts, 'host')}: {_number(self.ranks, 'learner process', 'es')}, {engines}{extra}"


def cluster_split(trainer: TrainerTable, engine: Engine) -> ClusterSplit:
    """Plan a run: by default, one learner process and one GPU of an engine on each host.

    The table is already validated, so every division here is exact.
    """
    ranks, engines = trainer.train_gpus or trainer.hosts, trainer.replicas
    engine_gpus = trainer.engine_gpus or engines * trainer.engine_hosts
    return ClusterSplit(
        hosts=trainer.hosts,
        ranks=ranks,
        ranks_per_host=ranks // trainer.hosts,
        engines=engines,
        engine_gpus_each=engine_gpus // engines if engine == "vllm" else 0,
        extra=trainer.extra_engines,
        engine_hosts=trainer.engine_hosts,
    )


def without_gpus(hosts: int) -> GpuNeed:
    """Return the need of a run on CPUs."""
    return GpuNeed(by_host=(0,) * hosts)


def hosts_left(need: GpuNeed, hosts: Sequence[Sequence[int]]) -> list[list[int]] | None:
    """Return what is left of the hosts' GPUs (MB each; 0: not reported) after placing a run; None if it does not fit.

    Each share, the largest first, goes to the host where the fewest GPUs fit it, so that large shares find room
    later.
    """
    left, taken = [list(gpus) for gpus in hosts], set[int]()
    for count in sorted(need.by_host, reverse=True):
        share = GpuNeed(count=count, memory_mb=need.memory_mb)
        fitting = {number: _fitting(share, gpus) for number, gpus in enumerate(left) if number not in taken}
        number = min((n for n, some in fitting.items() if some >= count), key=lambda n: fitting[n], default=None)
        if number is None:
            return None
        taken.add(number)
        left[number] = _rest(share, left[number])
    return left


def _fitting(share: GpuNeed, gpus: Iterable[int]) -> int:
    return sum(not memory or memory >= share.memory_mb for memory in gpus)


def _rest(share: GpuNeed, gpus: Sequence[int]) -> list[int]:
    """Remove the tightest fitting GPUs; those of unknown memory are taken first."""
    order = sorted(memory for memory in gpus if not memory or memory >= share.memory_mb)
    rest = list(gpus)
    for memory in order[: share.count]:
        rest.remove(memory)
    return rest


def _number(count: int, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else ending}"
