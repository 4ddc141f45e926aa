"""The body of a build run, called by workers.tasks.child: package -> candidates -> lock and trial -> report."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from envhub.protocol.registry.builds import BuildPayload, BuildReport, EnvironmentLock, SourcePayload
from envhub.protocol.registry.packages import TriedRelease, VersionView
from envhub.protocol.runs import FailureKind

from workers.builds.again import check_again, explained, fits_here
from workers.builds.errors import BuildFailed, HostsNeeded
from workers.builds.locking import open_workshop
from workers.builds.packing import pack_source
from workers.builds.record import Record
from workers.builds.search import OLDER_PYTHON, Attempt, Search
from workers.builds.start_up import check_start_up_files
from workers.builds.trying.trial import Trial
from workers.rollouts.sandbox_choice import chosen_sandbox
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.sandbox import Sandbox, SandboxError
from workers.venvs import interpreters
from workers.venvs.errors import NoPython, ToolFailed


@dataclass
class Build:
    """One build run: its job and what it has found."""

    job: Job
    payload: BuildPayload
    record: Record
    sandbox: Sandbox
    lock: EnvironmentLock | None = None
    trial: Trial = field(default_factory=Trial)
    tried: tuple[TriedRelease, ...] = ()


async def run_build(job: Job) -> None:
    """Run a build. Raises RunFailed, with an environment failure if the version is invalid, after reporting it."""
    if "source" in job.claim.payload:  # an upload whose package is not built yet
        async with _translated():
            await pack_source(job, SourcePayload.model_validate(job.claim.payload))
        return
    payload = BuildPayload.model_validate(job.claim.payload)
    job.lease.mask(*payload.secrets.values())
    settings = job.settings
    failed: BuildFailed | None = None
    async with _translated():
        sandbox = await chosen_sandbox(settings)
        build = Build(job, payload, Record(job.lease), sandbox)
        if not payload.has_readme:
            hint = "Say in README.md what the task is and how it scores."
            build.record.add("readme", False, "the package has no README", hint)
        previous = payload.previous
        if previous is not None and (payload.only_checks or (payload.keeps_lock and fits_here(previous))):
            build.lock = previous
            build.trial = await check_again(job, payload, previous, sandbox, build.record)
            if payload.lock_is_open and not build.trial.settled:
                await _search_again(build)
        else:
            try:
                await _build(build)
            except BuildFailed as error:
                failed = error
            except HostsNeeded as error:
                build.record.add("resolve", False, str(error), needs=error.needs)
            except RunFailed as error:
                raise explained(error, payload) from error
    await job.run.post(f"/runs/{job.claim.run_id}/build-report", _report(build, failed), VersionView)
    if failed is not None:
        raise RunFailed(failed.failure)


async def _build(build: Build) -> None:
    """Find a release and a Python with which the package loads. Raises BuildFailed, HostsNeeded, RunFailed."""
    await _search(build)
    while (older := _older(build)) is not None:
        build.job.lease.log(f"{build.trial.message[:500]}; trying an older Python")
        try:
            await _search(older)
        except (BuildFailed, HostsNeeded) as error:
            build.job.lease.log(f"no older Python does better: {error}")
            return
        tried = [one.model_copy(update={"chosen": False}) for one in build.tried]
        tried += [one.model_copy(update={"message": _noted(one)}) for one in older.tried]
        build.payload, build.record, build.lock, build.trial = older.payload, older.record, older.lock, older.trial
        build.tried = tuple(tried)


def _noted(tried: TriedRelease) -> str:
    return "; ".join(filter(None, [f"with Python {tried.python}" if tried.python else "", tried.message]))


def _older(build: Build) -> Build | None:
    """Return a build for an older Python if this one's standard library has dropped something the package needs."""
    if build.trial.code != OLDER_PYTHON or build.lock is None:
        return None
    requires_python = ",".join(filter(None, (build.payload.requires_python, f"<{build.lock.python}")))
    try:
        interpreters.choose(requires_python)
    except NoPython:
        return None
    payload = build.payload.model_copy(update={"requires_python": requires_python})
    return replace(build, payload=payload, record=build.record.fork(), tried=())


async def _search(build: Build) -> None:
    """Find the release with which the package loads. Raises BuildFailed, HostsNeeded, RunFailed."""
    record = build.record
    async with AsyncExitStack() as stack:
        with record.stage("package"):
            workshop = await stack.enter_async_context(open_workshop(build.job, build.payload, build.sandbox))
        check_start_up_files(workshop.package, record)
        search = Search(build.job, workshop, build.sandbox, record)
        chosen: Attempt | None = None
        try:
            chosen = await search.run()
            build.lock, build.trial, build.record = chosen.lock, chosen.trial or Trial(), chosen.record
        except (BuildFailed, HostsNeeded):
            build.record = search.attempts[0].record
            raise
        finally:
            build.tried = tuple(attempt.told(chosen=attempt is chosen) for attempt in search.attempts)


async def _search_again(build: Build) -> None:
    """Search for a release again. An unmet need ended the first search; with it met, another release may do better.

    Raises RunFailed.
    """
    anew = replace(build, record=Record(build.job.lease))
    try:
        await _build(anew)
    except (BuildFailed, HostsNeeded) as error:
        build.job.lease.log(f"no other release of verifiers does better: {error}")
        return
    if anew.trial.settled:
        build.lock, build.trial, build.record, build.tried = anew.lock, anew.trial, anew.record, anew.tried
        return
    kept = next((one for one in anew.tried if build.lock and one.verifiers == build.lock.verifiers), None)
    # tells why none does better
    build.tried = tuple(one.model_copy(update={"chosen": one is kept}) for one in anew.tried)


def _report(build: Build, failed: BuildFailed | None) -> BuildReport:
    trial, lock = build.trial, build.lock
    return BuildReport(
        generation=trial.hello.generation if trial.hello else None,
        verifiers=lock.verifiers if lock else "",
        lock=lock,
        describe=trial.described.model_dump(mode="json") if trial.described else None,
        checks=tuple(build.record.checks),
        tried=build.tried,
        failure=failed.failure if failed else None,
        scripted_rollout=trial.rollout,
        seconds=build.record.seconds,
    )


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    """Convert faults of this worker to infrastructure failures."""
    try:
        yield
    except (SandboxError, ToolFailed) as error:
        raise RunFailed.because(FailureKind.INFRASTRUCTURE, error.code, error.message, error.hint) from error
