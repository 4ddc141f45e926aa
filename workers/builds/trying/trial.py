"""Tries a frozen environment in a box without network: load, describe, and one scripted rollout."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from envhub.protocol.base import JsonObject
from envhub.protocol.registry.builds import BuildPayload, EnvironmentLock
from envhub.protocol.registry.needs import Need
from envhub.protocol.runner import Described, Hello, Load, SplitInfo
from envhub.protocol.runs import FailureKind

from workers.builds.record import Record
from workers.builds.trying.aged import loser, may_be_aged
from workers.builds.trying.images_check import check_images, without_built
from workers.builds.trying.scripted import CHECK, Scripted, run_scripted
from workers.rollouts.environment import InstalledEnvironment
from workers.rollouts.errors import RunnerFatal, RunnerGone
from workers.rollouts.failures import killed
from workers.rollouts.interceptor.data import open_data
from workers.rollouts.interceptor.scripted import Scripted as ScriptedModel
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.needs import told
from workers.rollouts.package_stores import GATEWAY
from workers.rollouts.sandboxes import RunSandboxes, run_sandboxes
from workers.rollouts.session import Runner
from workers.rollouts.target import open_target
from workers.rollouts.unmet import Unmet
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.sandbox import Sandbox

ROWS_LIMIT = 200_000  # characters of sample rows kept in a description
BOX_SECONDS = 1800.0
EXPLAINED = {  # codes of failures that a missing file cannot explain
    "verifiers_generation_mismatch", "no_verifiers_name", "no_load_environment", "mixed_generations", "bad_arguments",
    "outdated_environment", "older_python_needed", "not_written", "no_repository", "no_environment",
    "loader_not_exported", "several_tasksets", "environment_not_required",
}  # fmt: skip
NOT_PACKAGED = "file_not_packaged"  # unless the file would come with a repository
HOPELESS = {"load_timeout", "describe_timeout"}  # codes that another release would only repeat, slowly
LOG_HINT = "See the run's log for what the environment printed last."
MEMORY_HINT = "Load less at once, or ask an operator to raise WORKER_BOX_MEMORY_MB."


@dataclass(frozen=True)
class Trial:
    """What the environment showed."""

    hello: Hello | None = None
    described: Described | None = None
    rollout: JsonObject | None = None
    # the stage at which it ended; "" if it described itself and its rollout does not suggest another release
    stage: str = ""
    code: str = ""
    message: str = ""
    needs: tuple[Need, ...] = ()  # needed for the stage to pass
    settled: bool = True  # another release of verifiers would not do better
    aged: bool = False  # older dependencies may do better
    loser: str = ""  # the top-level module of a dependency that dropped a name


class _Ended(Exception):
    """Raised if a stage did not pass; `detail` is for its check."""

    def __init__(self, trial: Trial, detail: str) -> None:
        super().__init__(trial.message)
        self.trial = trial
        self.detail = detail


@dataclass(frozen=True)
class Subject:
    """What is tried, with its job and sandbox."""

    job: Job
    payload: BuildPayload
    sandbox: Sandbox
    lock: EnvironmentLock
    venv: Path


async def try_environment(subject: Subject, record: Record) -> Trial:
    """Run the checks load, describe and scripted-rollout. Raises RunFailed for what is not the package's fault."""
    trial = Trial()
    try:
        async with (
            _interceptor(subject) as interceptor,
            _sandboxes(subject, interceptor) as sandboxes,
            AsyncExitStack() as stack,
        ):
            unmet = Unmet(interceptor, sandboxes.broker)
            with _stage("load", subject, record, unmet):
                runner = await stack.enter_async_context(_installed(subject, interceptor, sandboxes).open(0))
                trial = replace(trial, hello=(hello := await runner.load(_load(subject.payload))))
            summary = f"{hello.env_class} of verifiers {hello.verifiers or '(none)'} on Python {hello.python}"
            record.add("load", True, f"{summary}, in {hello.load_s:.1f} s")
            with _stage("describe", subject, record, unmet):
                described = without_built(_bounded(await runner.describe()), sandboxes.folders)
            trial = replace(trial, described=described)
            sizes = ", ".join(f"{name}: {_size(split)}" for name, split in described.splits.items())
            record.add("describe", True, sizes or "no split")
            await check_images(subject.payload.name, sandboxes, unmet, record)
            done = await _rollout(runner, hello, described, unmet, record)
            trial = replace(trial, rollout=done.rollout)
            if done.mismatch:
                code, message = done.mismatch
                return replace(trial, stage=CHECK, code=code, message=message, settled=False)
            return trial
    except _Ended as ended:
        end = replace(ended.trial, hello=trial.hello)
        record.add(end.stage, False, end.message, ended.detail, end.needs)
        return end


@asynccontextmanager
async def _interceptor(subject: Subject) -> AsyncIterator[Interceptor]:
    """Make an interceptor with a scripted model, the hub's data sets, and the judges named in the settings."""
    job = subject.job
    async with open_data(job.run) as data, AsyncExitStack() as stack:
        granted = {
            name: await stack.enter_async_context(open_target(job, target, wants_tokens=False))
            for name, target in subject.payload.judges.items()
        }
        yield Interceptor(ScriptedModel(), judges=granted, data=data)


@asynccontextmanager
async def _sandboxes(subject: Subject, interceptor: Interceptor) -> AsyncIterator[RunSandboxes]:
    allow, lacking = subject.payload.settings.allow_hosts, interceptor.files_lacking
    async with run_sandboxes(
        subject.job, subject.sandbox, allow=allow, venv=subject.venv, lacking=lacking
    ) as sandboxes:
        yield sandboxes


def _installed(subject: Subject, interceptor: Interceptor, sandboxes: RunSandboxes) -> InstalledEnvironment:
    return InstalledEnvironment(
        venv=subject.venv,
        python=subject.lock.python,
        sandbox=subject.sandbox,
        settings=subject.job.settings,
        interceptor=interceptor,
        log=subject.job.lease.log,
        allow=subject.payload.settings.allow_hosts,
        secrets=subject.payload.secrets,
        lifetime_s=BOX_SECONDS,
        sandboxes=sandboxes,
    )


def _load(payload: BuildPayload) -> Load:
    settings = payload.settings
    return Load(
        env_id=payload.name,
        module=payload.module,
        env_args=settings.env_args,
        taskset=settings.taskset,
        harness=settings.harness,
        judge_base_url=f"{GATEWAY}/judge/v1",
    )


@contextmanager
def _stage(name: str, subject: Subject, record: Record, unmet: Unmet) -> Iterator[None]:
    """Measure a stage, and end it when the runner reports or causes a failure."""
    with record.stage(name):
        try:
            yield
        except RunnerFatal as fatal:
            raise _refused(name, fatal, unmet, subject.payload.module) from fatal
        except RunnerGone as gone:
            raise _gone(name, gone) from gone


def _refused(stage: str, fatal: RunnerFatal, unmet: Unmet, module: str) -> Exception:
    failure = fatal.failure
    needs = unmet.needs(fatal.needs)
    if not needs and failure.code not in EXPLAINED:
        needs = unmet.behind(failure.message, only_repositories=failure.code == NOT_PACKAGED)
    if failure.kind is FailureKind.INFRASTRUCTURE and not needs:
        return RunFailed(failure)
    aged = not needs and may_be_aged(failure.code, fatal.traceback, module)
    trial = Trial(
        stage=stage,
        code=failure.code,
        message=f"needs {told(needs)}: {failure.message}" if needs else failure.message,
        needs=needs,
        settled=(bool(needs) and fatal.certain) or failure.code in HOPELESS,
        aged=aged,
        loser=loser(fatal.traceback) if aged else "",
    )
    return _Ended(trial, "\n\n".join(part for part in (failure.hint, fatal.traceback) if part))


def _gone(stage: str, gone: RunnerGone) -> Exception:
    if gone.outside:
        return killed(gone)
    if gone.oom:
        return _Ended(Trial(stage=stage, code="out_of_memory", message=f"{gone}. {MEMORY_HINT}"), MEMORY_HINT)
    message = f"the environment ended its runner: {gone}"
    return _Ended(Trial(stage=stage, code="runner_died", message=message, settled=False), LOG_HINT)


async def _rollout(runner: Runner, hello: Hello, described: Described, unmet: Unmet, record: Record) -> Scripted:
    with record.stage(CHECK):
        try:
            return await run_scripted(runner, hello, described, unmet, record)
        except RunnerFatal as fatal:
            needs = unmet.needs(fatal.needs)
            message = f"needs {told(needs)}: {fatal}" if needs else str(fatal)
            record.add(CHECK, False, message, fatal.traceback, needs)
        except RunnerGone as gone:
            if gone.outside:
                raise _gone(CHECK, gone) from gone
            record.add(CHECK, False, f"{gone}. {MEMORY_HINT if gone.oom else LOG_HINT}")
    return Scripted()


def _bounded(described: Described) -> Described:
    """Drop sample rows that are too large to show from the description."""
    splits = {
        name: split
        if len(split.model_dump_json(include={"rows"})) < ROWS_LIMIT
        else split.model_copy(update={"rows": ()})
        for name, split in described.splits.items()
    }
    return described.model_copy(update={"splits": splits})


def _size(split: SplitInfo) -> str:
    return "unknown size" if split.size is None else f"{split.size} example{'s'[: split.size != 1]}"
