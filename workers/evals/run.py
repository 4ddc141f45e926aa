"""The body of an evaluation run: environment, model, box, rollouts, segments. Called by workers.tasks.child."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from envhub.client.telemetry.tracing import span
from envhub.errors import NotFound
from envhub.protocol.evals.evaluations import EvalPayload, SegmentReply, SegmentRequest
from envhub.protocol.evals.replays import StoredCalls
from envhub.protocol.registry.builds import LockedWheel
from envhub.protocol.registry.needs import flag_for
from envhub.protocol.runner import Load
from envhub.protocol.runs import FailureKind

from workers.evals.attempts import Attempts
from workers.evals.plan import count_examples
from workers.evals.sharing import Sharing
from workers.rollouts.collector import Collector
from workers.rollouts.environment import InstalledEnvironment
from workers.rollouts.failures import typed_failures
from workers.rollouts.groups import GroupRunner
from workers.rollouts.harness_trial import HarnessTrial, TrialRollout
from workers.rollouts.interceptor.data import open_data
from workers.rollouts.interceptor.recorder import Caps
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.pool import RunnerPool, processes_for
from workers.rollouts.sandbox_choice import chosen_sandbox
from workers.rollouts.sandboxes import RunSandboxes, run_sandboxes
from workers.rollouts.spans import Traced
from workers.rollouts.target import open_target
from workers.rollouts.tried_harnesses import mark_of
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.sandbox import Sandbox
from workers.venvs.environment import ensure_environment


async def run_evaluation(job: Job) -> None:
    """Run an evaluation. Raises RunFailed; cancelled from outside if the user or the hub asks for it."""
    payload = EvalPayload.model_validate(job.claim.payload)
    job.lease.mask(*payload.secrets.values())
    with typed_failures(job):
        async with AsyncExitStack() as stack:
            evaluation = await prepare(job, payload, stack)
            await evaluate(job, payload, evaluation, stack)


@dataclass(frozen=True)
class Evaluation:
    """The prepared parts that `evaluate` works with."""

    interceptor: Interceptor
    model: str
    venv: Path
    sandbox: Sandbox
    sandboxes: RunSandboxes
    example_hash: str | None = None  # of the only example of a replay


async def prepare(job: Job, payload: EvalPayload, stack: AsyncExitStack) -> Evaluation:
    """Prepare the frozen environment, the model, its judges and the interceptor."""
    settings = job.settings

    async def fetch(wheel: LockedWheel) -> Path:
        return await job.artifacts.fetch(wheel.url or "", wheel.sha256)

    job.lease.progress(0, 0, "rollouts", "preparing the environment")
    with span("prepare environment"):
        venv = await ensure_environment(payload.lock, root=settings.folder("venvs"), fetch=fetch)
    job.lease.progress(0, 0, "rollouts", "preparing the model")
    rollout_s = payload.config.timeout_s
    with span("prepare model", {"gen_ai.request.model": payload.target.model}):
        policy = await stack.enter_async_context(open_target(job, payload.target, rollout_s=rollout_s))
    judges = {
        name: await stack.enter_async_context(open_target(job, target, wants_tokens=False, rollout_s=rollout_s))
        for name, target in payload.judges.items()
    }
    data = None
    if payload.data_url:
        data = await stack.enter_async_context(open_data(job.run, payload.data_url))
    caps = Caps(calls=settings.call_limit, tokens=settings.token_limit)
    stored = await stored_calls(job, payload)
    interceptor = Interceptor(policy, judges=judges, caps=caps, data=data, replay=stored.calls if stored else ())
    sandbox = await chosen_sandbox(settings)
    sandboxes = await stack.enter_async_context(
        run_sandboxes(job, sandbox, allow=payload.config.allow_hosts, venv=venv)
    )
    known = stored.example_hash if stored else None
    return Evaluation(interceptor, policy.model, venv, sandbox, sandboxes, known)


async def stored_calls(job: Job, payload: EvalPayload) -> StoredCalls | None:
    """Fetch the model calls of the stored rollout to replay, if any. Raises RunFailed if that rollout is gone."""
    replay = payload.config.replay
    if replay is None:
        return None
    try:
        stored = await job.run.get(f"/evaluations/{payload.evaluation_id}/replayed", StoredCalls)
    except NotFound as error:
        raise RunFailed.because(FailureKind.ENVIRONMENT, error.code, error.message, error.hint) from error
    job.lease.log(f"replaying {len(stored.calls)} model calls of {replay}, example {replay.example}")
    return stored


async def evaluate(job: Job, payload: EvalPayload, evaluation: Evaluation, stack: AsyncExitStack) -> None:
    """Run the missing rollouts and store them."""
    config, lease = payload.config, job.lease
    installed = InstalledEnvironment(
        venv=evaluation.venv,
        python=payload.lock.python,
        sandbox=evaluation.sandbox,
        settings=job.settings,
        interceptor=evaluation.interceptor,
        log=lease.log,
        allow=config.allow_hosts,
        secrets=payload.secrets,
        sandboxes=evaluation.sandboxes,
    )
    pool = RunnerPool(installed.open, load_of(payload), log=lease.log)
    lease.progress(0, 0, "rollouts", f"loading the environment, for {job.settings.load_limit_s:g} s at most")
    await stack.enter_async_context(pool)
    described = await pool.describe()
    examples = count_examples(config, described)
    if (rows := described.rows_of(config.split)) != config.split:
        lease.log(f"it has no {config.split} split of its own: the examples are those of {rows}")
    if payload.tries_harness and examples:
        lease.progress(0, 0, "rollouts", "trying its harness")
        mark = mark_of(job, payload.environment, venv=evaluation.venv, load=load_of(payload), allow=config.allow_hosts)
        trial = HarnessTrial(pool, evaluation.interceptor, evaluation.sandboxes.broker, mark, flag_for, lease.log)
        await trial.run(TrialRollout(config.split, config.sampling, config.timeout_s, config.seed))
    traced = Traced(job.settings.trace_rollouts)
    broker = evaluation.sandboxes.broker
    groups = GroupRunner(pool, evaluation.interceptor, config.max_retries, broker, traced, lease.log)
    attempts = Attempts(config, groups, evaluation.model, evaluation.example_hash)
    path = f"/evaluations/{payload.evaluation_id}/segments"

    async def post(request: SegmentRequest) -> SegmentReply:
        return await job.run.post(path, request, SegmentReply)

    async with Collector(job.artifacts.upload_bytes, post) as collector:
        sharing = Sharing(job, payload, attempts, collector, examples=examples, grouped=pool.hello.requires_group)
        collector.total = sharing.total
        await sharing.begin()
        shard = sharing.shard
        whole = f"{sharing.examples} examples x {config.rollouts_per_example}, {shard.stored} already stored"
        lease.log(f"{payload.environment}: {whole}{'' if payload.first else '; this run takes a part'}")
        in_flight = max(1, min(shard.share, sharing.total - shard.stored))
        await pool.grow(processes_for(in_flight, job.settings.runner_processes, job.settings.cpus))
        await sharing.work()
    used = evaluation.interceptor.judge_usage
    if used.prompt_tokens or used.completion_tokens:
        lease.log(f"judges used {used.prompt_tokens} prompt and {used.completion_tokens} completion tokens")


def load_of(payload: EvalPayload) -> Load:
    """Return the first command for the runner."""
    return Load(
        env_id=payload.env_id,
        module=payload.module,
        env_args=payload.config.env_args,
        taskset=payload.config.taskset,
        harness=payload.config.harness,
        judge_base_url="{gateway}/judge/v1",
    )
