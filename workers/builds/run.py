"""The body of a build run, called by workers.tasks.slot: package -> lock -> frozen environment -> trial -> report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from envhub.packaging import constraints
from envhub.protocol.builds import BuildPayload, BuildReport, EnvironmentLock
from envhub.protocol.packages import VersionView
from envhub.protocol.runs import FailureKind

from workers.builds.errors import BuildFailed
from workers.builds.locking import Workshop, lock_package, open_workshop
from workers.builds.record import Record
from workers.builds.trial import Trial, try_environment
from workers.builds.wheel_exchange import HubExchange
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.sandbox import Sandbox, SandboxError, backend
from workers.venvs.environment import ensure_environment
from workers.venvs.errors import ToolFailed

MISSING_NAME = "no_verifiers_name"  # the runner's code: this release lacks something that the package uses


@dataclass
class Build:
    """One build run: its job, what it found, and the lock and trial of the release that answered."""

    job: Job
    payload: BuildPayload
    record: Record
    sandbox: Sandbox
    lock: EnvironmentLock | None = None
    trial: Trial = field(default_factory=lambda: Trial(None, None, None))


async def run_build(job: Job) -> None:
    """Raises RunFailed: with an environment failure when the version is invalid, reported before."""
    payload = BuildPayload.model_validate(job.claim.payload)
    settings = job.settings
    record = Record(job.lease)
    failed: BuildFailed | None = None
    async with _translated():
        accept = settings.sandbox_accept_no_isolation
        sandbox = backend(settings.sandbox, settings.folder("boxes"), accept_no_isolation=accept)
        build = Build(job, payload, record, sandbox)
        try:
            await _build(build)
        except BuildFailed as error:
            failed = error
    await job.run.post(f"/runs/{job.claim.run_id}/build-report", _report(build, failed), VersionView)
    if failed is not None:
        raise RunFailed(failed.failure)


async def _build(build: Build) -> None:
    payload, record = build.payload, build.record
    if not payload.has_readme:
        record.add("readme", False, "the package has no README", "Say in README.md what the task is and how it scores.")
    async with AsyncExitStack() as stack:
        with record.stage("package"):
            workshop = await stack.enter_async_context(open_workshop(build.job, payload, build.sandbox))
        _check_start_up_files(workshop, record)
        releases = constraints.fallbacks(payload.evidence, workshop.requirements) or [""]
        for number, release in enumerate(releases):
            try:
                await _attempt(build, workshop, release)
            except BuildFailed as error:
                if error.code != MISSING_NAME or number + 1 == len(releases):
                    raise
                build.job.lease.log(f"{error.failure.message}; trying verifiers {releases[number + 1]}")
            else:
                return


async def _attempt(build: Build, workshop: Workshop, release: str) -> None:
    """Lock, install and try under one release of verifiers; the wheels go to the hub meanwhile."""
    record, payload = build.record, build.payload
    with record.stage("resolve"):
        lock = await lock_package(workshop, release)
    verifiers = f"verifiers {lock.verifiers}" if lock.verifiers else "without verifiers"
    built = f"; built from source: {', '.join(workshop.sources.built)}" if workshop.sources.built else ""
    record.add("resolve", True, f"{len(lock.wheels)} wheels, {verifiers}, Python {lock.python}{built}")
    build.lock = lock
    exchange = HubExchange(build.job.run, build.job.artifacts)
    wheels = [(wheel, workshop.paths[wheel.sha256]) for wheel in lock.wheels]
    uploading = asyncio.create_task(exchange.upload_missing(wheels))
    try:
        with record.stage("install"):
            venv = await ensure_environment(lock, root=build.job.settings.folder("venvs"), fetch=workshop.fetch)
        record.add("install", True, f"environment {venv.name[:12]}")
        build.trial = await try_environment(build.job, payload, lock, venv, sandbox=build.sandbox, record=record)
        with record.stage("upload"):
            await uploading
    finally:
        uploading.cancel()
        await asyncio.gather(uploading, return_exceptions=True)
    record.add("upload", True, "the hub keeps every wheel of the lock")


def _check_start_up_files(workshop: Workshop, record: Record) -> None:
    """`.pth` files of the package run at every start of its interpreter: in boxes only, but people should know."""
    places = workshop.package.places.values()
    found = [path for scheme, path in places if scheme == "site" and "/" not in path and path.endswith(".pth")]
    if found:
        summary = f"{', '.join(found)} of the wheel runs at every start, in the box"
        record.add("start-up files", False, summary)


def _report(build: Build, failed: BuildFailed | None) -> BuildReport:
    trial, lock = build.trial, build.lock
    return BuildReport(
        generation=trial.hello.generation if trial.hello else None,
        verifiers=lock.verifiers if lock else "",
        lock=lock,
        describe=trial.described.model_dump(mode="json") if trial.described else None,
        checks=tuple(build.record.checks),
        failure=failed.failure if failed else None,
        scripted_rollout=trial.rollout,
        seconds=build.record.seconds,
    )


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    """What is this worker's own trouble becomes an infrastructure failure."""
    try:
        yield
    except (SandboxError, ToolFailed) as error:
        raise RunFailed.because(FailureKind.INFRASTRUCTURE, error.code, error.message, error.hint) from error
