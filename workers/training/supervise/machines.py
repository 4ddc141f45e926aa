"""The serving and learning parts of a run, on this host alone or on several hosts of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from envhub.protocol.runs import FailureKind
from envhub.protocol.training.cluster_need import ClusterSplit, cluster_split
from envhub.protocol.training.gpu_need import engine_of
from envhub.protocol.training.runs import TrainPayload
from envhub.protocol.training.trainer import TrainingMode

from workers.cluster.access import read_access
from workers.inference.policy_engine import PolicyEngineStart
from workers.runs.children import Children
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.training.cluster.plan import ClusterPlan
from workers.training.coordinator.policy import VersionedPolicy
from workers.training.learner.directory.run_dir import RunDir
from workers.training.placement import Placement
from workers.training.supervise.engine import EngineKeeper
from workers.training.supervise.hosts import LEARNER, HostsKeeper
from workers.training.supervise.learner import LearnerKeeper
from workers.training.supervise.turns import Turns

SERVED_NAME = "policy"
VERSIONS_SERVED = 4  # the newest, its predecessor's last requests, an evaluation's, and one spare


@dataclass(frozen=True)
class Machines:
    """`parts` run beside the coordinator for the whole run; the learner begins when `ready` is set."""

    parts: tuple[Coroutine[Any, Any, None], ...]
    learner: LearnerKeeper
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    cluster: HostsKeeper | None = None


def machines_of(
    job: Job, payload: TrainPayload, run_dir: RunDir, policy: VersionedPolicy, placement: Placement
) -> Machines:
    """Return the parts that the run asks for. Raises RunFailed."""
    split = hosts_of(payload)
    if split is None:
        return this_host(job, payload, run_dir, policy, placement)
    return several_hosts(job, payload, run_dir, policy, split)


def this_host(
    job: Job, payload: TrainPayload, run_dir: RunDir, policy: VersionedPolicy, placement: Placement
) -> Machines:
    """Return an engine and a learner on this host."""
    turns = Turns(run_dir, policy)
    children, home = Children(job.settings.folder("children")), job.settings.folder("engine-home")
    engine = EngineKeeper(
        engine_start(job, payload, run_dir, placement),
        policy,
        children,
        home,
        job.lease.log,
        job.claim.run_id,
        stall_s=job.settings.stall_s,
        turn=turns.lock,
    )
    learner = LearnerKeeper(
        run_dir,
        children,
        home,
        job.lease.log,
        job.claim.run_id,
        stall_s=job.settings.stall_s,
        gpus=placement.learner,
    )
    machines = Machines((engine.run(), *((turns.run(),) if placement.in_turns else ())), learner)
    machines.ready.set()
    return machines


def several_hosts(
    job: Job, payload: TrainPayload, run_dir: RunDir, policy: VersionedPolicy, split: ClusterSplit
) -> Machines:
    """Return engines and learner processes on a cluster's hosts, including this one. Raises RunFailed."""
    settings = job.settings
    access = read_access(settings)
    if access is None:
        raise RunFailed.because(
            FailureKind.INFRASTRUCTURE,
            "no_cluster",
            "This worker has no Ray cluster now.",
            "Set WORKER_RAY_ADDRESS (infra/production.md), see its log for what Ray says, or leave trainer.hosts out.",
        )
    environment = access.environment(settings.folder("engine-home"))
    plan = ClusterPlan(
        address=access.address,
        run_id=job.claim.run_id,
        split=split,
        on_gpus=payload.gpus > 0,
        start=engine_start(job, payload, run_dir, Placement()),
    )
    children = Children(settings.folder("children"))
    steps = payload.config.max_steps
    cluster = HostsKeeper(
        plan,
        run_dir,
        policy,
        children,
        environment,
        job.lease.log,
        lambda text: job.lease.progress(payload.reported_steps, steps, "steps", text),
        stall_s=settings.stall_s,
        extra_gpus=job.lease.extra_gpus,
    )
    learner = LearnerKeeper(
        run_dir,
        children,
        settings.folder("engine-home"),
        job.lease.log,
        job.claim.run_id,
        stall_s=settings.stall_s,
        launcher=LEARNER,
        surroundings=environment,
    )
    return Machines((cluster.run(),), learner, cluster.placed, cluster)


def hosts_of(payload: TrainPayload) -> ClusterSplit | None:
    """Return how a run is split over several hosts; None for one host."""
    trainer = payload.config.trainer
    return cluster_split(trainer, engine_of(trainer, payload.model.engine)) if trainer.hosts > 1 else None


def engine_start(job: Job, payload: TrainPayload, run_dir: RunDir, placement: Placement) -> PolicyEngineStart:
    """Return how to start this run's engine. Raises RunFailed."""
    trainer, settings = payload.config.trainer, job.settings
    kind = engine_of(trainer, payload.model.engine)
    if kind == "vllm" and not settings.vllm_python:
        raise RunFailed.because(
            FailureKind.INFRASTRUCTURE,
            "no_vllm",
            "This worker has no vLLM.",
            'Set WORKER_VLLM_PYTHON to an interpreter that has it, or trainer.engine = "torch".',
        )
    return PolicyEngineStart(
        kind=kind,
        directory=run_dir.base.resolve(),
        name=SERVED_NAME,
        adapters=VERSIONS_SERVED if trainer.mode is TrainingMode.LORA else 0,
        rank=trainer.rank,
        deterministic=trainer.deterministic,
        threads=settings.engine_threads,
        vllm_python=settings.vllm_python,
        vllm_arguments=settings.vllm_arguments,
        gpus=placement.engine,
        gpu_share=placement.engine_share,
        dtype=trainer.dtype,
        sleeps=placement.in_turns,
    )
