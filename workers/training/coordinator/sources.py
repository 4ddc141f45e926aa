"""The run's environments, ready to produce rollouts: installed, boxed, loaded. Used for training and evaluations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from envhub.client.telemetry.tracing import span
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.registry.builds import LockedWheel
from envhub.protocol.registry.needs import line_for
from envhub.protocol.registry.packages import Generation
from envhub.protocol.runner import Described, Group, Load, Policy
from envhub.protocol.training.environment import EvalEnvironment, TrainingEnvironment
from envhub.protocol.training.runs import EnvironmentTarget, EvalTarget, TrainPayload, TrainTarget

from workers.rollouts.environment import InstalledEnvironment
from workers.rollouts.groups import POLICY_URL, GroupRunner
from workers.rollouts.harness_trial import HarnessTrial, TrialRollout
from workers.rollouts.interceptor.answers import Upstream
from workers.rollouts.interceptor.data import DataSource, open_data
from workers.rollouts.interceptor.recorder import Budget, Caps
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.output import RepeatLimiter
from workers.rollouts.pool import RunnerPool, processes_for
from workers.rollouts.sandbox_choice import chosen_sandbox
from workers.rollouts.sandboxes import run_sandboxes
from workers.rollouts.spans import Traced
from workers.rollouts.target import open_target
from workers.rollouts.tried_harnesses import mark_of
from workers.runs.execution import Job
from workers.training.coordinator.plan import RolloutRequest
from workers.training.coordinator.shaping import Shaping
from workers.venvs.environment import ensure_environment

BUDGETS = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens"}


@dataclass
class Source:
    """Runs groups of one environment."""

    label: str
    runner: GroupRunner
    shaping: Shaping
    model: str
    timeout_s: float
    described: Described
    _serial: count[int] = field(default_factory=lambda: count(1))

    def size(self, split: str) -> int | None:
        """Return a split's number of examples (an unknown split has those of `train`); None if it is not known."""
        return self.described.size(split)

    def rows_of(self, split: str) -> str:
        """Return the split from which `split` takes its rows."""
        return self.described.rows_of(split)

    async def run(self, request: RolloutRequest) -> list[RolloutRecord]:
        """Run a group and return a record for each rollout, whatever happened. Raises RunnerFatal."""
        begun: list[str] = []

        def make() -> Group:
            group = self._group(request)
            self.shaping.begin(group.id, request)
            begun.append(group.id)
            return group

        try:
            return await self.runner.run(make)
        finally:
            for group_id in begun:
                self.shaping.end(group_id)

    def _group(self, request: RolloutRequest) -> Group:
        return Group(
            id=f"{request.name}-{next(self._serial)}",
            example=request.example,
            split=request.split,
            n=request.n,
            policy=Policy(base_url=POLICY_URL, model=self.model),
            sampling=request.sampling,
            deadline_s=self.timeout_s,
        )


@asynccontextmanager
async def open_source(
    job: Job,
    payload: TrainPayload,
    target: TrainTarget | EvalTarget,
    policy: Upstream,
    in_flight: int,
    *,
    tries_harness: bool = False,
) -> AsyncIterator[Source]:
    """Install, box and load one environment.

    With `tries_harness`, a harness that no check has covered must pass a trial before the source is yielded. Raises
    RunFailed, RunnerFatal, RunnerGone, SandboxError, VenvError.
    """
    settings, table = job.settings, target.config
    job.lease.mask(*target.secrets.values())
    log = RepeatLimiter(named(job.lease.log, target.label))
    async with AsyncExitStack() as stack:
        shaping = Shaping()
        interceptor = Interceptor(
            policy,
            judges={
                name: await stack.enter_async_context(open_target(job, judge, wants_tokens=False))
                for name, judge in target.judges.items()
            },
            caps=Caps(
                calls=settings.call_limit,
                tokens=settings.token_limit,
                budget=Budget(table.max_turns, table.max_input_tokens, table.max_output_tokens, table.max_total_tokens),
            ),
            data=await data_source(job, payload, stack),
            shape=shaping,
        )
        sandbox = await chosen_sandbox(settings)
        allow = (*payload.config.allow_hosts, *table.allow_hosts)
        venv = await install(job, target)
        sandboxes = await stack.enter_async_context(run_sandboxes(job, sandbox, allow=allow, venv=venv))
        installed = InstalledEnvironment(
            venv=venv,
            python=target.lock.python,
            sandbox=sandbox,
            settings=settings,
            interceptor=interceptor,
            log=log,
            allow=allow,
            secrets=target.secrets,
            sandboxes=sandboxes,
        )
        pool = await stack.enter_async_context(RunnerPool(installed.open, load_of(target), log=log))
        described = await pool.describe()
        if tries_harness and target.tries_harness:
            given = partial(line_for, table=table_of(payload, target))
            mark = mark_of(job, target.environment, venv=venv, load=load_of(target), allow=allow)
            trial = HarnessTrial(pool, interceptor, sandboxes.broker, mark, given, log)
            await trial.run(trial_rollout(payload, table))
        await pool.grow(processes_for(in_flight, settings.runner_processes, settings.cpus))
        traced = Traced(settings.trace_rollouts)
        runner = GroupRunner(pool, interceptor, table.retry_limit, sandboxes.broker, traced, log)
        yield Source(target.label, runner, shaping, policy.model, table.timeout_s, described)


def trial_rollout(payload: TrainPayload, table: TrainingEnvironment | EvalEnvironment) -> TrialRollout:
    """Return how the run asks for rollouts of a table."""
    if isinstance(table, TrainingEnvironment):
        split, arguments = table.split or "train", payload.config.sampling_of(table).arguments()
    else:
        split, arguments = table.split or "eval", payload.config.eval_sampling_of(table).arguments()
    return TrialRollout(split, arguments, table.timeout_s)


def table_of(payload: TrainPayload, target: TrainTarget | EvalTarget) -> str:
    """Return the name of an environment's table in the run's TOML."""
    for name, targets in (("env", payload.environments), ("eval.env", payload.evaluations)):
        for place, one in enumerate(targets):
            if one is target:
                return f"{name}[{place}]"
    raise AssertionError("unreachable: every target is the payload's")


def named(log: Callable[[str], None], label: str) -> Callable[[str], None]:
    """Return a log function that prefixes each line with its environment, as envhub.protocol.training.log reads it."""

    def say(text: str) -> None:
        log("\n".join(f"{label}: {line}" for line in text.splitlines()))

    return say


async def install(job: Job, target: EnvironmentTarget) -> Path:
    """Return the frozen virtual environment."""

    async def fetch(wheel: LockedWheel) -> Path:
        return await job.artifacts.fetch(wheel.url or "", wheel.sha256)

    with span("prepare environment", {"envhub.environment": target.label}):
        return await ensure_environment(target.lock, root=job.settings.folder("venvs"), fetch=fetch)


async def data_source(job: Job, payload: TrainPayload, stack: AsyncExitStack) -> DataSource | None:
    """Open the hub's data cache."""
    if not payload.data_url:
        return None
    return await stack.enter_async_context(open_data(job.run, payload.data_url))


def load_of(target: TrainTarget | EvalTarget) -> Load:
    """Return the runner's first command. The current generation enforces the table's budgets itself, seat by seat."""
    table = target.config
    harness = dict(table.harness or {})
    if target.evidence.generation is Generation.CURRENT:
        harness |= table.model_dump(include=BUDGETS, exclude_none=True)
    return Load(
        env_id=target.env_id,
        module=target.module,
        env_args=table.args,
        taskset=table.taskset,
        harness=harness or table.harness,
        judge_base_url="{gateway}/judge/v1",
    )
