"""How a training run of several hosts is cut: learner processes and engines, and the GPUs of each host.

The hub asks a worker's cluster for hosts by it, the worker places by it. GPUs count where the run has any: on a cluster
without GPUs each learner process and each engine has processors instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envhub.protocol.training_trainer import Engine, TrainerTable


@dataclass(frozen=True)
class ClusterSplit:
    """engine_gpus_each 0: the torch engine, which has no GPU."""

    hosts: int
    ranks: int  # learner processes, each with one GPU
    ranks_per_host: int
    engines: int  # replicas; number i is on host i % hosts
    engine_gpus_each: int

    @property
    def count(self) -> int:
        """GPUs over all hosts."""
        return sum(self.gpus_by_host)

    @property
    def gpus_by_host(self) -> tuple[int, ...]:
        """GPUs on each host, the largest number first."""
        return tuple(
            self.ranks_per_host + len(range(host, self.engines, self.hosts)) * self.engine_gpus_each
            for host in range(self.hosts)
        )

    def words(self) -> str:
        """ "on 2 hosts: 4 learner processes, 2 engines of 2 GPUs"."""
        engines = _number(self.engines, "engine")
        if self.engine_gpus_each:
            engines += f" of {_number(self.engine_gpus_each, 'GPU')}"
        return f"on {_number(self.hosts, 'host')}: {_number(self.ranks, 'learner process', 'es')}, {engines}"


def cluster_split(trainer: TrainerTable, engine: Engine) -> ClusterSplit:
    """How the wishes are read: one learner process a host, one engine a host with one GPU, unless others are asked for.

    The table has been validated: whatever is divided here has no rest.
    """
    ranks, engines = trainer.train_gpus or trainer.hosts, trainer.replicas
    return ClusterSplit(
        hosts=trainer.hosts,
        ranks=ranks,
        ranks_per_host=ranks // trainer.hosts,
        engines=engines,
        engine_gpus_each=(trainer.engine_gpus or engines) // engines if engine == "vllm" else 0,
    )


def hosts_fit(needed: Iterable[int], free: Sequence[int]) -> bool:
    """Whether hosts with so many free GPUs each hold a run that needs so many on each of its hosts."""
    wanted, there = sorted(needed, reverse=True), sorted(free, reverse=True)
    return len(wanted) <= len(there) and all(want <= have for want, have in zip(wanted, there, strict=False))


def _number(count: int, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else ending}"
