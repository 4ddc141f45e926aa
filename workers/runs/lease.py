"""Holds a run's lease alongside its body: heartbeats, progress, the log, and cancel requests from the hub.

  async with hold(run_client, claim, heartbeat_seconds=1.0) as lease: ...

A lost lease sets `lease.lost` and a cancel request sets `lease.cancelled`; workers.runs.execution ends the body on
either.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from envhub import errors
from envhub.protocol.runs import Claim, EngineCounts, ExtraGpus, Heartbeat, HeartbeatReply, Progress

from workers.runs.errors import LeaseLost
from workers.runs.gpu_meter import GpuMeter
from workers.runs.hub import RunClient
from workers.runs.log import LogStream
from workers.runs.pace import Pace

logger = logging.getLogger(__name__)


class Lease:
    """A run's lease as its body sees it."""

    def __init__(self, run: RunClient, stream: LogStream, spent_s: Callable[[], float] | None = None) -> None:
        self.cancelled = asyncio.Event()  # the hub wants the run to stop
        self.lost = asyncio.Event()  # the attempt is no longer ours
        self.engine_gpus = 0  # of the host's engine that the body uses, told with the next heartbeat
        self.extra_gpus = GpuMeter()  # of engines that the body has beyond the run's placement
        self.engines: Callable[[], EngineCounts] | None = None  # of a training run, told with its progress
        self.spent_s = spent_s  # CPU seconds of this attempt so far, if anybody counts them
        self.farewell_s = 0.0  # extra seconds that a cancelled body may take to end, to save its state
        self._run = run
        self._stream = stream
        self._progress: Progress | None = None
        self._sent: Progress | None = None
        self._pace = Pace(time.monotonic)

    def log(self, text: str) -> None:
        """Append to the run's log, adding a missing newline. Never blocks or fails."""
        self._stream.write(text if text.endswith("\n") else text + "\n")

    def mask(self, *secrets: str) -> None:
        """Replace these texts by *** in everything logged from now on."""
        self._stream.mask(secrets)

    def masked(self, text: str) -> str:
        """Mask a text like the log does, for other reports of a run."""
        return self._stream.masked(text)

    def progress(self, done: int, total: int, unit: str, note: str = "") -> None:
        """Set the run's progress, which is sent with the next heartbeat."""
        left_s = self._pace.left_s(done, total, unit)
        self._progress = Progress(done=done, total=total, unit=unit, note=note, left_s=left_s)

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of this attempt so far, or None if nobody counts them."""
        return None if self.spent_s is None else self.spent_s()

    async def beat(self) -> HeartbeatReply:
        """Send one heartbeat. Raises LeaseLost and connection errors."""
        progress = told = self._progress
        if told is not None and self.engines is not None:
            told = told.model_copy(update={"engines": self.engines()})
        extra = ExtraGpus(held=self.extra_gpus.held, seconds=self.extra_gpus.seconds())
        reply = await self._run.heartbeat(
            Heartbeat(progress=told, cpu_seconds=self.cpu_seconds(), engine_gpus=self.engine_gpus, extra_gpus=extra)
        )
        self._sent = progress
        if reply.cancel:
            self.cancelled.set()
        return reply

    async def close(self) -> None:
        """Send the final progress and the rest of the log. Not for a lost lease."""
        if self._progress != self._sent:
            with suppress(LeaseLost, errors.EnvhubError):
                await self.beat()
        await self._stream.close()


@asynccontextmanager
async def hold(
    run: RunClient,
    claim: Claim,
    *,
    heartbeat_seconds: float,
    log_limit: int = 16 * 1024**2,
    hurry: asyncio.Event | None = None,
    spent_s: Callable[[], float] | None = None,
) -> AsyncIterator[Lease]:
    """Keep the lease of `claim` while the body runs; at its end flush the log. `hurry` asks for a heartbeat now;
    heartbeats tell spent_s, what the attempt has had of processors."""
    stream = LogStream(run, limit=log_limit)
    lease = Lease(run, stream, spent_s)
    lease.mask(claim.token)
    interval_s = min(heartbeat_seconds, claim.lease_seconds / 3)
    tasks = [
        asyncio.create_task(keep_beating(lease, interval_s, hurry or asyncio.Event())),
        asyncio.create_task(stream.keep_flushing(lease.lost)),
    ]
    try:
        yield lease
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not lease.lost.is_set():
            await lease.close()


async def keep_beating(lease: Lease, interval_s: float, hurry: asyncio.Event) -> None:
    """Send heartbeats until cancelled or lost. If the hub is away, keep trying: it knows whether the lease holds."""
    away = False
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(interval_s):
                await hurry.wait()
        hurry.clear()
        try:
            await lease.beat()
            if away:
                logger.warning("heartbeats arrive again")
            away = False
        except LeaseLost as error:
            logger.warning("lease lost: %s", error)
            lease.lost.set()
            return
        except errors.EnvhubError as error:
            if not away:  # logged once, though it is retried every second
                logger.warning("heartbeat failed, will repeat: %s", error)
            away = True
