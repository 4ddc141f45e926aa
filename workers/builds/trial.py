"""A frozen environment is tried in a box without network: it loads, describes itself, and does one scripted rollout."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from envhub.protocol.base import JsonObject
from envhub.protocol.builds import BuildPayload, EnvironmentLock
from envhub.protocol.packages import Generation
from envhub.protocol.rollouts import Outcome, RolloutRecord
from envhub.protocol.runner import Described, Group, Hello, Load, Policy, SplitInfo
from envhub.protocol.runs import FailureKind
from envhub.protocol.secrets import SECRET_NAME

from workers.builds.errors import BuildFailed
from workers.builds.record import Record
from workers.rollouts.boxes import PYTHON, environment_box, model_variables
from workers.rollouts.errors import RunnerFatal, RunnerGone
from workers.rollouts.interceptor.data import DataSource
from workers.rollouts.interceptor.scripted import Scripted
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.session import Runner, open_runner
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.sandbox import Sandbox

GROUP = "build"
ROLLOUT_SECONDS = 120.0
SECRETS = 20  # names of missing ones that are told
ROWS_LIMIT = 200_000  # characters of sample rows kept in a description
BOX_SECONDS = 1800.0
NO_EXAMPLES = (
    "without arguments it has no examples; choose its data in each run (--env-args, [eval.taskset]), or set "
    "[tool.verifiers.eval] env_args in pyproject.toml, which builds load it with"
)


@dataclass(frozen=True)
class Trial:
    """What the environment showed. `described` is None when it needs a secret to load."""

    hello: Hello | None
    described: Described | None
    rollout: JsonObject | None


async def try_environment(
    job: Job, payload: BuildPayload, lock: EnvironmentLock, venv: Path, *, sandbox: Sandbox, record: Record
) -> Trial:
    """Raises BuildFailed (the runner's own codes) and RunFailed."""
    async with _runner(job, lock, venv, sandbox) as (runner, interceptor):
        with record.stage("load"):
            hello = await _load(runner, payload, record)
            if hello is None:
                return Trial(None, None, None)
            _check_generation(hello, payload, lock)
        summary = f"{hello.env_class} of verifiers {hello.verifiers or '(none)'} on Python {hello.python}"
        record.add("load", True, f"{summary}, in {hello.load_s:.1f} s")
        with record.stage("describe"):
            described = await _describe(runner)
        sizes = ", ".join(f"{name}: {_size(split)}" for name, split in described.splits.items())
        record.add("describe", True, sizes or "no split")
        with record.stage("scripted-rollout"):
            rollout = await _scripted(runner, described, interceptor)
        _judge_rollout(rollout, record)
        return Trial(hello, described, rollout.model_dump(mode="json") if rollout else None)


@asynccontextmanager
async def _runner(
    job: Job, lock: EnvironmentLock, venv: Path, sandbox: Sandbox
) -> AsyncIterator[tuple[Runner, Interceptor]]:
    with tempfile.TemporaryDirectory(prefix="envhub-build-") as folder:
        sockets = Path(folder)
        sockets.chmod(0o755)
        spec = environment_box(venv, sockets, job.settings, python=lock.python, lifetime_s=BOX_SECONDS)
        async with aiohttp.ClientSession(trust_env=False) as http:
            data = DataSource(job.run.absolute("/hf"), job.run.authorization(), http)
            interceptor = Interceptor(Scripted(), data=data)
            async with interceptor.serve(sockets / "gateway.sock"), sandbox.create(spec) as box:
                env = model_variables(box.gateway_url)
                try:
                    async with open_runner(box, sockets=sockets, python=PYTHON, log=job.lease.log, env=env) as runner:
                        yield runner, interceptor
                except RunnerGone as gone:
                    raise _gone(gone) from gone


async def _load(runner: Runner, payload: BuildPayload, record: Record) -> Hello | None:
    """None when it needs what only the starter of a run can grant."""
    judge = "http://127.0.0.1:8000/judge/v1"
    load = Load(env_id=payload.name, module=payload.module, env_args=payload.env_args, judge_base_url=judge)
    try:
        return await runner.load(load)
    except RunnerFatal as fatal:
        if fatal.failure.code == "missing_secret":
            names = tuple(name for name in fatal.secrets[:SECRETS] if re.fullmatch(SECRET_NAME, name))
            record.add("load", False, f"not tried: {fatal.failure.message}", fatal.failure.hint, names)
            return None
        raise _failed(fatal) from fatal


def _check_generation(hello: Hello, payload: BuildPayload, lock: EnvironmentLock) -> None:
    wanted: Generation | None = payload.evidence.generation
    if wanted is not None and hello.generation is not wanted:
        raise BuildFailed(
            "generation_mismatch",
            f"the source was read as the {wanted.value} generation, but with verifiers {lock.verifiers} it loads as "
            f"{hello.generation.value}",
            hint=f'Set [tool.envhub] generation = "{hello.generation.value}" in pyproject.toml if that is right.',
            detail="\n".join(payload.evidence.reasons),
        )


async def _describe(runner: Runner) -> Described:
    try:
        return _bounded(await runner.describe())
    except RunnerFatal as fatal:
        raise _failed(fatal) from fatal


async def _scripted(runner: Runner, described: Described, interceptor: Interceptor) -> RolloutRecord | None:
    split = next((name for name in ("eval", "train") if described.splits.get(name, SplitInfo(size=0)).size != 0), None)
    if split is None:
        return None
    recorders = [interceptor.open(f"{GROUP}.{suffix}") for suffix in ("0", "g")]
    policy = Policy(base_url="http://127.0.0.1:8000/r/{rollout}/v1", model="hub/scripted")
    group = Group(
        id=GROUP,
        example=0,
        split="train" if split == "train" else "eval",
        policy=policy,
        seed=0,
        deadline_s=ROLLOUT_SECONDS,
        scripted=True,
    )
    try:
        async for done in runner.run(group):
            turns = tuple(turn for recorder in recorders for turn in recorder.turns)
            return done.record.model_copy(update={"turns": turns})
    except RunnerFatal as fatal:
        raise _failed(fatal) from fatal
    return None


def _judge_rollout(rollout: RolloutRecord | None, record: Record) -> None:
    """A scripted answer proves little: what it breaks is shown, but does not make the version invalid."""
    if rollout is None:  # many packages are told by an argument which data to load
        record.add("scripted-rollout", True, f"not tried: {NO_EXAMPLES}")
    elif rollout.outcome is not Outcome.FAILED or rollout.failure is None:
        calls = len(rollout.turns)
        record.add(
            "scripted-rollout", True, f"reward {_rounded(rollout.reward)} after {calls} model call{'s'[: calls != 1]}"
        )
    elif rollout.failure.kind is FailureKind.JUDGE:
        record.add("scripted-rollout", True, "it asks a judge model, which a build has not")
    else:
        failure = rollout.failure
        summary = f"{failure.kind.value} failure: {failure.type}: {failure.message}"
        record.add("scripted-rollout", False, summary, failure.traceback)


def _rounded(reward: float | None) -> str:
    return "(none)" if reward is None else f"{reward:.4g}"


def _failed(fatal: RunnerFatal) -> Exception:
    if fatal.failure.kind is FailureKind.INFRASTRUCTURE:
        return RunFailed(fatal.failure)
    return BuildFailed(fatal.failure.code, fatal.failure.message, hint=fatal.failure.hint, detail=fatal.traceback)


def _gone(gone: RunnerGone) -> BuildFailed:
    hint = "See the run's log for what the environment printed last."
    if gone.oom:
        return BuildFailed("out_of_memory", str(gone), hint="Load less at once, or raise WORKER_BOX_MEMORY_MB.")
    return BuildFailed("runner_died", f"the environment ended its runner: {gone}", hint=hint)


def _bounded(described: Described) -> Described:
    """The description without sample rows that are too large to show."""
    splits = {
        name: split if len(split.model_dump_json()) < ROWS_LIMIT else split.model_copy(update={"rows": ()})
        for name, split in described.splits.items()
    }
    return described.model_copy(update={"splits": splits})


def _size(split: SplitInfo) -> str:
    return "unknown size" if split.size is None else f"{split.size} example{'s'[: split.size != 1]}"
