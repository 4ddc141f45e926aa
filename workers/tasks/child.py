"""A child of the pool, which executes one run at a time in its main thread (a bwrap box dies with the creating thread).

It gets a place from the host process, then the run from the hub. SIGTERM, or the end of the host process, returns
the run to the queue; SIGUSR2 triggers the next heartbeat at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from envhub import errors
from envhub.client.telemetry.json_logs import note
from envhub.client.telemetry.tracing import now_ns, start_tracing, stop_tracing
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.runs import Failure, FailureKind, FinishRequest, RunState

from workers.runs.children import die_with_parent, name_process
from workers.runs.errors import RunFailed
from workers.runs.execution import Job, execute
from workers.runs.hub import HubClient
from workers.runs.processors import Processors
from workers.sandbox import cpu_seconds_of_boxes
from workers.settings import WorkerEnvironment, load
from workers.tasks.kinds import body_of
from workers.tasks.places import Ask, Done, Place
from workers.tasks.queues import kind_of
from workers.tasks.start_up import leave_parent

logger = logging.getLogger(__name__)
NOT_HERE = "not here"  # result of a task that found no place or no run
IDLE = "idle child"  # process name in `ps -o comm` and `top` while idle; otherwise "eval run" or similar


class RunFailedHere(Exception):
    """Raised for a failed run: a normal result for the worker, but a failed task for those who watch Celery."""


class Signals:
    """Handles SIGTERM and SIGUSR2, with or without a run in progress, without losing a signal."""

    def __init__(self) -> None:
        self.stop: Callable[[], object] | None = None  # of the current run
        self.hurry: Callable[[], object] | None = None

    def on_stop(self, *_: object) -> None:
        """Stop the current run; an idle child exits at once."""
        if self.stop is None:
            sys.exit(0)
        with suppress(RuntimeError):  # the run's loop has just ended
            self.stop()

    def on_hurry(self, *_: object) -> None:
        """Make the current run send a heartbeat; an idle child ignores the signal."""
        if self.hurry is not None:
            with suppress(RuntimeError):
                self.hurry()


signals = Signals()


def become_child(**_: object) -> None:
    """Set up a new child of the pool: its own session, signal handlers, and SIGTERM when its parent dies."""
    os.setsid()
    leave_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signals.on_stop)
    signal.signal(signal.SIGUSR2, signals.on_hurry)
    die_with_parent()
    name_process(IDLE)
    start_tracing("envhub-worker", {"envhub.worker": load().name})


def leave_child(**_: object) -> None:
    """Stop tracing in a child that ends, because it exits without Python's own shutdown."""
    stop_tracing()


def run_here(run_id: str, request: Any) -> str:
    """Take a place, claim and execute the run, return its final state. `request` is the task. Raises RunFailedHere."""
    note(run_id=run_id)
    settings = load()
    need = GpuNeed.model_validate((request.headers or {}).get("gpus") or {})
    queue = kind_of(str(request.delivery_info["routing_key"]))
    ask = Ask(pid=os.getpid(), run_id=run_id, queue=queue, gpus=need)
    name_process(f"{queue} run")
    try:
        finish = asyncio.run(perform(ask, settings))
    finally:
        name_process(IDLE)
        signals.stop = signals.hurry = None
        signal.alarm(0)
    if finish is None:
        return NOT_HERE
    if finish.state is RunState.FAILED and finish.failure is not None:
        raise RunFailedHere(f"{finish.failure.message} [{finish.failure.code}]")
    return finish.state.value


async def perform(ask: Ask, settings: WorkerEnvironment) -> FinishRequest | None:
    """Get a place from the host process and hold it while the run is executed.

    Return what the hub was told, or None if the run was not ours or no longer is.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(settings.data.absolute() / "host.sock")
    except OSError as error:
        logger.warning("run %s: the host process cannot be asked: %s", ask.run_id, error)
        return None
    try:
        writer.write(ask.model_dump_json().encode() + b"\n")
        await writer.drain()
        answer = await reader.readline()
        if not answer:  # the host process is just ending
            return None
        place = Place.model_validate_json(answer)
        if place.refused:
            logger.info("run %s is not taken: %s", ask.run_id, place.refused)
            return None
        stop = Stop(settings.stop_grace_s)
        watch = asyncio.create_task(stop.when_closed(reader))
        try:
            claimed, finish = await claim_and_run(ask.run_id, place, settings, stop)
        finally:
            watch.cancel()
        with suppress(ConnectionError):  # the host process died, and the run was returned to the queue
            writer.write(Done(claimed=claimed).model_dump_json().encode() + b"\n")
            await writer.drain()
    finally:
        writer.close()
    return finish


class Stop:
    """Requests to return the current run, from a signal or the host process, and to send a heartbeat at once."""

    def __init__(self, grace_s: float) -> None:
        self.came, self.hurry = asyncio.Event(), asyncio.Event()
        self._grace_s = grace_s
        loop = asyncio.get_running_loop()
        signals.stop = lambda: loop.call_soon_threadsafe(self.tell)
        signals.hurry = lambda: loop.call_soon_threadsafe(self.hurry.set)

    def tell(self) -> None:
        """Ask the run to stop. If it does not stop in time, SIGALRM, which nothing handles, ends the process."""
        if not self.came.is_set():
            self.came.set()
            signal.alarm(math.ceil(self._grace_s))

    async def when_closed(self, reader: asyncio.StreamReader) -> None:
        """Wait until the host process closes the connection because it ends or is gone, then stop."""
        with suppress(ConnectionError):
            await reader.read()
        self.tell()


async def claim_and_run(
    run_id: str, place: Place, settings: WorkerEnvironment, stop: Stop
) -> tuple[bool, FinishRequest | None]:
    """Return whether the hub gave us the run, and its final report, which is None if its lease was lost."""
    token = settings.token.get_secret_value()
    async with HubClient(settings.hub, token, patience_s=settings.hub_patience_s) as hub:
        asked_ns = now_ns()
        try:
            claim = await hub.claim(run_id, place.worker_id, tuple(gpu.free_mb for gpu in place.gpus))
        except errors.EnvhubError as error:
            logger.info("run %s not claimed: %s", run_id, error)
            return False, None
        logger.info("run %s (%s), attempt %d", claim.run_id, claim.kind, claim.attempt)
        body = body_of(claim.kind) or refuse
        finish = await execute(
            hub, claim, body, settings, stop.came, place.gpus,
            hurry=stop.hurry, asked_ns=asked_ns, spent_s=Processors(cpu_seconds_of_boxes).seconds,
        )  # fmt: skip
        logger.info("run %s: %s", claim.run_id, finish.state if finish else "lease lost")
    return True, finish


async def refuse(job: Job) -> None:
    """Fail a run of a kind that this worker does not know."""
    message = f"This worker cannot do {job.claim.kind} runs."
    raise RunFailed(Failure(kind=FailureKind.INFRASTRUCTURE, code="unknown_kind", message=message))
