"""Executes one attempt from claim to finish: start, the body alongside its lease, exactly one final report.

A body is `async def body(job: Job) -> None`. It returns (succeeded), raises RunFailed, or is cancelled by this
module (cancel requested, lease lost, worker stopping, time limit). It cleans up in its own `async with` blocks.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from envhub import errors
from envhub.protocol.placing.gpus import Gpu
from envhub.protocol.runs import Claim, Failure, FailureKind, FinishRequest, RunState

from workers.runs.artifacts import Artifacts
from workers.runs.disk_full import DISK_FULL, is_disk_full
from workers.runs.errors import LeaseLost, RunFailed
from workers.runs.hub import HubClient, RunClient
from workers.runs.lease import Lease, hold
from workers.runs.spans import run_span, tell_end
from workers.settings import WorkerEnvironment

logger = logging.getLogger(__name__)
CLEANUP_S = 10.0  # for a cancelled body to close its boxes and send finished work

STOPPING = Failure(
    kind=FailureKind.INFRASTRUCTURE,
    code="worker_stopping",
    message="The worker was stopped while it ran this.",
    hint="The run goes back to the queue; another worker, or this one after its restart, continues it.",
)
HUB_AWAY = Failure(
    kind=FailureKind.INFRASTRUCTURE,
    code="hub_unreachable",
    message="The worker could not reach the hub or its storage for too long.",
    hint="Check the hub's and the worker's logs, then start the run again or resume it: stored results are kept.",
)
TOO_LONG = "Make it smaller, or resume it: what is stored stays. An operator raises WORKER_RUN_LIMIT_S."


@dataclass(frozen=True)
class Job:
    """What a run's body receives."""

    claim: Claim
    run: RunClient
    lease: Lease
    artifacts: Artifacts
    settings: WorkerEnvironment
    gpus: tuple[Gpu, ...] = ()  # used by no other run


Body = Callable[[Job], Awaitable[None]]


async def execute(
    hub: HubClient,
    claim: Claim,
    body: Body,
    settings: WorkerEnvironment,
    stop: asyncio.Event,
    gpus: tuple[Gpu, ...] = (),
    *,
    hurry: asyncio.Event | None = None,
    beat_s: float | None = None,
    asked_ns: int | None = None,
    spent_s: Callable[[], float] | None = None,
) -> FinishRequest | None:
    """Run `body` for a claimed run and report its end. Return the report, or None if the lease was lost.

    stop: return the run to the queue. hurry: send a heartbeat now, whose reply may be a cancel. beat_s: seconds
    between heartbeats, if not as in the settings. asked_ns: when the run was requested, for its trace. spent_s:
    returns the CPU seconds of this attempt so far; without it, the body sets `lease.spent_s` if it knows them.
    """
    beat_s = beat_s or settings.heartbeat_seconds
    with run_span(claim, asked_ns=asked_ns) as whole:
        finish = await _executed(hub, claim, body, settings, stop, gpus, hurry, beat_s, spent_s)
        tell_end(whole, finish)
    return finish


async def _executed(
    hub: HubClient,
    claim: Claim,
    body: Body,
    settings: WorkerEnvironment,
    stop: asyncio.Event,
    gpus: tuple[Gpu, ...],
    hurry: asyncio.Event | None,
    beat_s: float,
    spent_s: Callable[[], float] | None,
) -> FinishRequest | None:
    run = hub.run(claim)
    artifacts = Artifacts(run, settings.folder("blobs"), cache_bytes=settings.cache_mb * 1024**2)
    log_limit = settings.log_limit_mb * 1024**2
    finish: FinishRequest | None
    async with hold(run, claim, heartbeat_seconds=beat_s, log_limit=log_limit, hurry=hurry, spent_s=spent_s) as lease:
        finish = await outcome_of(Job(claim, run, lease, artifacts, settings, gpus), body, stop)
    if finish is None:
        return None
    used = {"cpu_seconds": lease.cpu_seconds() or 0.0, "extra_gpu_seconds": lease.extra_gpus.seconds()}
    finish = finish.model_copy(update=used)
    try:
        await run.finish(finish)
    except LeaseLost as error:
        logger.warning("run %s: its end was not accepted: %s", claim.run_id, error)
        return None
    except errors.EnvhubError:
        logger.exception("run %s: its end could not be reported; its lease will expire", claim.run_id)
    return finish


async def outcome_of(job: Job, body: Body, stop: asyncio.Event) -> FinishRequest | None:
    """Run the body and return the report for the hub, or None if the lease is lost and nothing may be reported."""
    task = asyncio.ensure_future(guarded(job, body))
    events = (job.lease.lost, job.lease.cancelled, stop)
    watchers = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait([task, *watchers], timeout=job.settings.run_limit_s, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            too_long = not any(event.is_set() for event in events)
            if too_long and job.lease.farewell_s:
                job.lease.cancelled.set()  # not by the user, but the body saves its state in the same way
            if job.lease.lost.is_set() or stop.is_set() or not job.lease.cancelled.is_set():
                await end(task)
            else:
                await end(task, CLEANUP_S + job.lease.farewell_s, hurry=(watchers[0], watchers[2]))
            return interrupted(job, stop, too_long=too_long)
        return task.result() if not job.lease.lost.is_set() else None
    except LeaseLost:
        return None
    finally:
        for watcher in watchers:
            watcher.cancel()


def interrupted(job: Job, stop: asyncio.Event, *, too_long: bool) -> FinishRequest | None:
    """Return the report for a body that was stopped from outside."""
    if job.lease.lost.is_set():
        return None
    if job.lease.cancelled.is_set() and not too_long:
        return FinishRequest(state=RunState.CANCELLED)
    if stop.is_set() and not too_long:
        return FinishRequest(state=RunState.QUEUED, failure=STOPPING)  # does not count as an attempt of the run
    hours = job.settings.run_limit_s / 3600
    message = f"The run took longer than the worker's limit of {hours:g} hours."
    failure = Failure(kind=FailureKind.LIMIT, code="run_time_limit", message=message, hint=TOO_LONG)
    return FinishRequest(state=RunState.FAILED, failure=failure)


async def guarded(job: Job, body: Body) -> FinishRequest:
    """Run the body and return a report for each way in which it can end by itself. Raises LeaseLost."""
    try:
        await job.run.start()
        await body(job)
    except RunFailed as error:
        return FinishRequest(state=RunState.FAILED, failure=error.failure)
    except LeaseLost:
        raise
    except errors.TooLarge as error:  # the owner's storage limit is reached
        failure = Failure(kind=FailureKind.LIMIT, code=error.code, message=error.message, hint=error.hint)
        return FinishRequest(state=RunState.FAILED, failure=failure)
    except (errors.ConnectionFailed, errors.ServerError) as error:
        job.lease.log(f"{error.message}")
        return FinishRequest(state=RunState.FAILED, failure=HUB_AWAY)
    except Exception as error:
        logger.exception("run %s failed", job.claim.run_id)
        job.lease.log(traceback.format_exc())
        if is_disk_full(error):
            return FinishRequest(state=RunState.FAILED, failure=DISK_FULL)
        message = f"The worker itself failed: {type(error).__name__}: {error}"[:2000]
        hint = "This is a fault of the worker, not of the environment: see the run's log and the worker's."
        failure = Failure(kind=FailureKind.INFRASTRUCTURE, code="worker_error", message=message, hint=hint)
        return FinishRequest(state=RunState.FAILED, failure=failure)
    return FinishRequest(state=RunState.SUCCEEDED)


async def end(
    task: asyncio.Future[FinishRequest], seconds: float = CLEANUP_S, hurry: Sequence[asyncio.Future[Any]] = ()
) -> None:
    """Cancel the body and let it clean up. Cancel again if it does not end in time, or once `hurry` happens."""
    for limit in (seconds, CLEANUP_S):
        task.cancel()
        watched: list[asyncio.Future[Any]] = [task, *hurry]
        await asyncio.wait(watched, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            break
        hurry = ()
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a stopped run ended with %r", error)
