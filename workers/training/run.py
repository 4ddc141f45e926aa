"""The body of a training run: engine, learner and boxes around the coordinator. Called by workers.tasks; no torch."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
from envhub.client.telemetry.tracing import span
from envhub.protocol.models.catalog import EndpointTarget
from envhub.protocol.runs import FailureKind
from envhub.protocol.training.gpu_need import engine_of, gpu_sizes
from envhub.protocol.training.runs import TrainPayload
from envhub.protocol.training.shapes import shape_of_config
from envhub.protocol.training.trainer import TrainingMode

from workers.inference.address import EngineAddress
from workers.rollouts.failures import typed_failures
from workers.rollouts.interceptor.endpoint import Endpoint
from workers.rollouts.schedule import first_of
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.training.admission.errors import NothingToLearn
from workers.training.cluster.rollout_wire import RolloutServerStart
from workers.training.coordinator.evaluation import Evaluations, held_out_examples
from workers.training.coordinator.examples import examples_of
from workers.training.coordinator.loop import Coordinator, weights_of
from workers.training.coordinator.policy import Connect, VersionedPolicy
from workers.training.coordinator.sources import Source, open_source
from workers.training.exporters.exports import exporting
from workers.training.learner.directory.run_dir import RunDir
from workers.training.placement import CannotPlace, Placement, place
from workers.training.supervise.beginning import discard_later, version_to_begin_with
from workers.training.supervise.directory import evaluated, prepare_directory, remove_old
from workers.training.supervise.hosts import HostsKeeper
from workers.training.supervise.learner_config import learner_config
from workers.training.supervise.machines import SERVED_NAME, hosts_of, machines_of
from workers.training.supervise.model_files import bring_model
from workers.training.supervise.policy_server import policy_server
from workers.training.supervise.reporter import Reporter
from workers.training.supervise.spread_source import RolloutHosts, SpreadSource
from workers.training.supervise.stalls import watch_rollouts
from workers.training.supervise.stopping import save_last


async def run_training(job: Job) -> None:
    """Execute a training run. Raises RunFailed; is cancelled from outside when the user or the hub cancels the run."""
    payload = TrainPayload.model_validate(job.claim.payload)
    job.lease.mask(*payload.secrets.values())
    job.lease.farewell_s = job.settings.stop_training_s
    job.lease.progress(payload.reported_steps, payload.config.max_steps, "steps", "preparing")
    root = job.settings.folder("training")
    remove_old(root)
    remove_old(job.settings.folder("metrics"))
    with typed_failures(job):
        run_dir = await prepare_directory(root, payload, job.claim, job.artifacts.fetch_blob)
        with span("prepare model", {"gen_ai.request.model": payload.model.reference}):
            adapter = await bring_model(job, payload, run_dir)
        split = hosts_of(payload)
        placement = placement_of(job, payload, run_dir) if split is None else Placement()
        job.lease.log(placement.words() if split is None else split.words())
        if placement.in_turns:
            payload = synchronous(payload)
        config = learner_config(
            payload.config,
            initial_adapter=adapter,
            threads=job.settings.engine_threads,
            placement=placement,
            on_gpus=split is not None and payload.gpus > 0,
        )
        run_dir.config.write_text(config.model_dump_json(indent=1))
        try:
            async with AsyncExitStack() as stack:
                await train(job, payload, run_dir, placement, stack)
        except BaseExceptionGroup as group:
            raise first_of(group) from None
    shutil.rmtree(run_dir.root, ignore_errors=True)


async def train(job: Job, payload: TrainPayload, run_dir: RunDir, placement: Placement, stack: AsyncExitStack) -> None:
    """Run all parts concurrently; the first error ends the others."""
    http = await stack.enter_async_context(
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
    )
    lora = payload.config.trainer.mode is TrainingMode.LORA
    policy = VersionedPolicy(payload.model.reference, SERVED_NAME, connect_to(payload, http), adapters=lora)
    machines = machines_of(job, payload, run_dir, policy, placement)
    split = hosts_of(payload)
    wanted = 1 if split is None else split.engines
    job.lease.engines = lambda: policy.counts(wanted)
    reporter = Reporter(job, payload, run_dir, await stack.enter_async_context(exporting(job, payload)))
    async with asyncio.TaskGroup() as tasks:
        background = [tasks.create_task(part) for part in (*machines.parts, reporter.run())]
        await machines.ready.wait()
        learning = tasks.create_task(machines.learner.run())
        try:
            sources = await open_sources(job, payload, policy, stack)
            if machines.cluster is not None:
                sources = await spread(job, sources, machines.cluster, policy, http, stack)
            run = Steps(payload, run_dir, sources, policy, reporter)
            run.say_what_is_evaluated(job.lease.log)
            coordinator = run.coordinator(job)
            background.append(tasks.create_task(watch_rollouts(coordinator)))
            version = version_to_begin_with(run_dir, run.evaluations.is_due)
            if lora:
                await weights_of(run_dir, version)  # of version 0 too, which the learner writes
            # the learner has loaded its checkpoint, so new steps will replace the discarded ones
            await discard_later(job, payload, run_dir)
            reporter.catch_up(version)
            await policy.advance(version, run_dir.version(version))
            await policy.serving()
            if version > evaluated(run_dir):
                await run.evaluate(version)
            await coordinator.run()
        except NothingToLearn as error:
            trained = await save_last(job, run_dir, learning, reporter)
            if not (trained and error.mastered):
                raise RunFailed.because(error.fault, "nothing_to_learn", str(error), error.hint) from error
            job.lease.log(f"nothing is left to learn: {error}")
        except asyncio.CancelledError:
            if job.lease.cancelled.is_set():
                await save_last(job, run_dir, learning, reporter)
            raise
        await learning
        await reporter.finish()
        for task in background:
            task.cancel()


@dataclass
class Steps:
    """What happens around each step: its evaluations and its report."""

    payload: TrainPayload
    run_dir: RunDir
    sources: Sources
    policy: VersionedPolicy
    reporter: Reporter

    def __post_init__(self) -> None:
        config = self.payload.config
        self.held_out = held_out_examples(config, examples_of(config, self.sources.trained))
        self.evaluations = Evaluations(config, self.sources.trained, self.sources.evaluated, self.held_out)
        self._began = time.monotonic()

    def say_what_is_evaluated(self, log: Callable[[str], None]) -> None:
        """Log each environment whose evaluations use the training rows, so they say nothing about unseen examples."""
        for label in self.evaluations.trained_on():
            log(
                f"{label} has no eval split: its evaluations are of the training split's rows; "
                "[val] sets training examples aside"
            )

    def coordinator(self, job: Job) -> Coordinator:
        """Return the run's coordinator."""
        return Coordinator(
            self.payload.config,
            self.run_dir,
            self.sources.trained,
            self.held_out,
            self.policy,
            self.after_weights,
            job.lease.log,
        )

    async def after_weights(self, step: int) -> None:
        """Report and evaluate once the weights of `step` are served. The next weights wait until this ends."""
        spent = {"step": time.monotonic() - self._began}
        self._began = time.monotonic()
        self.reporter.step(step, spent)
        await self.evaluate(step)

    async def evaluate(self, step: int) -> None:
        """Run and report the evaluations that are due after a step."""
        for point in await self.evaluations.run(step):
            self.reporter.evaluation(point)
        self.reporter.evaluated(step)


@dataclass(frozen=True)
class Sources:
    """The run's environments, by label."""

    trained: Mapping[str, Source]
    evaluated: Mapping[str, Source]


async def open_sources(job: Job, payload: TrainPayload, policy: VersionedPolicy, stack: AsyncExitStack) -> Sources:
    """Install and load every environment, one after the other."""
    in_flight = payload.config.inflight
    trained: dict[str, Source] = {}
    evaluated: dict[str, Source] = {}
    for target in payload.environments:
        note = f"loading {target.label}, for {job.settings.load_limit_s:g} s at most"
        job.lease.progress(payload.reported_steps, payload.config.max_steps, "steps", note)
        trained[target.label] = await stack.enter_async_context(
            open_source(job, payload, target, policy, in_flight, tries_harness=True)
        )
    for evaluation in payload.evaluations:
        evaluated[evaluation.label] = await stack.enter_async_context(
            open_source(job, payload, evaluation, policy, in_flight, tries_harness=True)
        )
    return Sources(trained, evaluated)


async def spread(
    job: Job,
    sources: Sources,
    cluster: HostsKeeper,
    policy: VersionedPolicy,
    http: aiohttp.ClientSession,
    stack: AsyncExitStack,
) -> Sources:
    """Return the same environments, with the run's other hosts producing rollouts besides this one."""
    policy_at = await stack.enter_async_context(policy_server(policy, cluster.ip))
    hosts = cluster.hosts = RolloutHosts(http, job.lease.log)
    start = RolloutServerStart(
        hub_url=job.settings.hub, claim=job.claim, policy_url=policy_at.base_url, policy_key=policy_at.key
    )
    cluster.give_rollouts(start)
    trained = {label: SpreadSource(source, f"train/{label}", hosts) for label, source in sources.trained.items()}
    evaluated = {label: SpreadSource(source, f"eval/{label}", hosts) for label, source in sources.evaluated.items()}
    return Sources(trained, evaluated)


def placement_of(job: Job, payload: TrainPayload, run_dir: RunDir) -> Placement:
    """Decide which of the run's GPUs the engine and the learner get. Raises RunFailed."""
    trainer = payload.config.trainer
    shape = shape_of_config(json.loads((run_dir.base / "config.json").read_text()))
    sizes = None if shape is None else gpu_sizes(payload.config, shape)
    try:
        return place(job.gpus, trainer, engine_of(trainer, payload.model.engine), sizes)
    except CannotPlace as error:
        raise RunFailed.because(FailureKind.LIMIT, "cannot_place", str(error), error.hint) from error


def synchronous(payload: TrainPayload) -> TrainPayload:
    """Turn off sampling ahead, which gains nothing on one GPU.

    Rollouts would only wait, and time out, during the learner's turn.
    """
    trainer = payload.config.trainer.model_copy(update={"max_off_policy": 0})
    return payload.model_copy(update={"config": payload.config.model_copy(update={"trainer": trainer})})


def connect_to(payload: TrainPayload, http: aiohttp.ClientSession) -> Connect:
    """Return a function that makes the endpoint of one policy version.

    The timeout is that of the slowest rollout, because rollouts end themselves.
    """
    evaluated = payload.config.eval.env if payload.config.eval else ()
    longest = max(table.timeout_s for table in (*payload.config.env, *evaluated))

    def connect(engine: EngineAddress, model: str) -> Endpoint:
        variant = engine.variant(model, timeout_s=longest, max_retries=2)
        return Endpoint(EndpointTarget(model=payload.model.reference, variants=(variant,)), http)

    return connect
