"""The host process of a worker: manages what its runs share on this host and talks to the hub, but runs no pool run.

It joins the hub and sends beats (the room it has), manages GPUs, engines and stores, gives the pool's children their
places, and executes the runs that only wait and forward. Started by workers.tasks.host_process as `python -m
workers.tasks.host`; it ends when its standard input ends, and first gives back what it holds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
from contextlib import suppress
from typing import TextIO

from envhub import errors
from envhub.client.telemetry.json_logs import start_logging
from envhub.client.telemetry.tracing import start_tracing
from envhub.protocol.runs import BeatRequest, JoinReply, RunTask
from pydantic import BaseModel, Field

from workers.cluster.gpus import pool_of
from workers.cluster.keeper import ClusterKeeper
from workers.inference.manager import EngineManager, EngineSettings
from workers.runs.children import Children, die_with_parent
from workers.runs.gpu_pool import GpuPool
from workers.runs.hub import HubClient
from workers.sandbox import SandboxError, sweep_leftovers
from workers.settings import WorkerEnvironment, load
from workers.tasks.bad_requests import leave_out_bad_requests
from workers.tasks.disk_room import DiskRoom
from workers.tasks.forwarding import forwarding_runs
from workers.tasks.housekeeping import keep_house
from workers.tasks.joining import announce, join
from workers.tasks.own_broker import OwnBroker, is_reachable, without_password
from workers.tasks.places import Places

logger = logging.getLogger("workers.tasks.host")  # __name__ is __main__ here
LEAST_PAUSE_S = 0.05  # minimum time between two beats
ATTENTIVE_S = 1.0  # time between two beats while there are runs outside the pool
AGAIN_S = 1.0  # pause after a failed beat
MOST_REFUSED = 1000  # limit for one beat; the others are sent with the next
FAREWELL_S = 5.0  # time after the grace period, in which a child that still runs ends itself


class Told(BaseModel):
    """A line on standard input. Fields that are given replace their values; the rest stays unchanged."""

    slots: dict[str, int] | None = None  # in the first line: queue -> runs at once
    forwarded: tuple[str, ...] = ()  # in the first line: queues of runs that wait and forward
    consumed: tuple[str, ...] | None = None  # queues that Celery consumes now
    processes: int | None = None  # number of children of the pool
    run_id: str = ""  # a run that the broker delivered for this process
    queue: str = ""  # of that run


class Joined(BaseModel):
    """The only line on standard output: how to reach the broker. If a later join returns others, this process ends."""

    worker_id: str
    broker_url: str
    broker_options: dict[str, object] = Field(default_factory=dict)

    @classmethod
    def of(cls, reply: JoinReply) -> Joined:
        """Take the fields of a reply that concern Celery."""
        return cls(worker_id=reply.worker_id, broker_url=reply.broker_url, broker_options=reply.broker_options)


class Host:
    """The host process, one per worker. `run` lasts until its input ends, or until the worker must be restarted."""

    def __init__(self, settings: WorkerEnvironment, hub: HubClient, first: Told, answers: TextIO) -> None:
        self._settings = settings
        self._hub = hub
        self._answers = answers
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._joined: Joined | None = None
        self._told: Joined | None = None
        self._consumed: tuple[str, ...] = ()
        self._beat_s = 2.0
        self._post: OwnBroker | None = None  # used if the hub's broker is out of reach
        children = Children(settings.folder("children"))
        self._gpus = GpuPool(pool_of(settings))
        self._engines = EngineManager(engine_settings(settings), children, self._gpus)
        self._places = Places(first.slots or {}, self._engines.take_gpus, self._gpus.give_back, children, self._on_free)
        self._disk = DiskRoom(settings.data, settings.disk_reserve_mb * 1024**2)
        beside = forwarding_runs(settings, hub, self._free_gpus)
        self._beside = [runs for runs in beside if runs.queue in first.forwarded]
        self._cluster = ClusterKeeper(settings, children, self._forget_hub) if settings.ray_address else None
        self._queues = (*self._places.slots, *(runs.queue for runs in self._beside))

    async def run(self, orders: asyncio.StreamReader) -> None:
        """Clean up, join, and send beats until the input ends."""
        await asyncio.to_thread(self._sweep)
        await self._gpus.look()
        # sent when Celery's process is gone
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._ended.set)
        async with self._engines, self._places.serve(self._settings.data.absolute() / "host.sock"):
            ended, listening, beating, *_ = tasks = [
                asyncio.create_task(work)
                for work in (
                    self._ended.wait(),
                    self._listen(orders),
                    self._keep_beating(),
                    keep_house(self._settings, self._oldest_run),
                    self._gpus.keep_looking(self._forget_hub),
                    *([self._cluster.keep()] if self._cluster else []),
                )
            ]
            try:
                await asyncio.wait([ended, listening, beating], return_when=asyncio.FIRST_COMPLETED)
                for task in (listening, beating):
                    if task.done():
                        task.result()  # raises an error of ours: this process ends and the worker restarts
            finally:
                closing = self._places.close(self._settings.stop_grace_s + FAREWELL_S)
                await asyncio.gather(closing, *(runs.stop() for runs in self._beside))
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _sweep(self) -> None:
        try:
            for box in sweep_leftovers(self._settings.folder("boxes")):
                logger.warning("removed a box that its dead owner left: %s", box)
        except (SandboxError, OSError) as error:  # a run that needs boxes will report the same error
            logger.warning("leftover boxes could not be swept: %s", error)

    async def _listen(self, orders: asyncio.StreamReader) -> None:
        async for line in orders:
            told = Told.model_validate_json(line)
            if told.consumed is not None:
                self._consumed = told.consumed
            if told.processes is not None:
                self._places.processes = told.processes
            for runs in self._beside:
                if runs.queue == told.queue:
                    runs.take((told.run_id,), self._places.worker_id)
            self._wake.set()

    async def _keep_beating(self) -> None:
        while True:
            joined = self._joined or await self._join()
            self._wake.clear()
            beat = self._beat()
            try:
                reply = await self._hub.beat(joined.worker_id, beat)
                self._deliver(reply.tasks)
                for runs in self._beside:
                    runs.hurry(reply.cancelled)
            except errors.EnvhubError as error:
                logger.warning("the hub was not told of this worker: %s", error)
                self._places.refused.update(beat.refused)
                self._joined = None  # join again, since the hub may have been restarted or have forgotten this worker
                await asyncio.sleep(AGAIN_S)
                continue
            await asyncio.sleep(LEAST_PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s() * random.uniform(0.8, 1.2)):  # noqa: S311  spread the workers
                    await self._wake.wait()

    def _pause_s(self) -> float:
        """Return a shorter pause while there are runs that learn of a cancel through beats."""
        return min(self._beat_s, ATTENTIVE_S) if any(runs.any_run for runs in self._beside) else self._beat_s

    def _beat(self) -> BeatRequest:
        idle = self._engines.idle_gpus  # a waiting run can have them at once
        room = self._places.room() | {runs.queue: runs.room for runs in self._beside}
        refused = tuple(self._places.refused)[:MOST_REFUSED]
        self._places.refused.difference_update(refused)
        consumed = self._consumed if self._disk.is_enough() else ()
        return BeatRequest(
            room={queue: number for queue, number in room.items() if queue in consumed},
            free_gpus=self._free_gpus(),
            busy_gpus=tuple(gpu.memory_mb for gpu in self._gpus.busy if gpu not in idle),
            engines=self._engines.counts(),
            gpu_use=self._gpus.use,
            refused=refused,
            answer=self._post is not None,
        )

    def _free_gpus(self) -> tuple[int, ...]:
        return tuple(gpu.free_mb for gpu in (*self._gpus.free, *self._engines.idle_gpus))

    async def _join(self) -> Joined:
        cluster = self._cluster.facts if self._cluster else None
        announced = announce(self._settings, self._places.slots, self._queues, self._gpus.known, cluster)
        reply = await join(self._hub, announced)
        if self._cluster:
            self._cluster.joined(reply.cluster_token)
        joined = await asyncio.to_thread(self._broker_of, reply)
        self._beat_s = self._settings.beat_seconds or reply.beat_seconds
        self._places.worker_id = joined.worker_id
        if self._told is None:
            self._told = joined
            self._answers.write(joined.model_dump_json() + "\n")
            self._answers.flush()
        elif joined != self._told:
            logger.warning("the hub has another broker or knows this worker anew: starting anew")
            self._ended.set()
        self._joined = joined
        return joined

    def _broker_of(self, reply: JoinReply) -> Joined:
        """Return the hub's broker if it is reachable from here, else our own. The check is made only at the start."""
        joined = Joined.of(reply)
        if self._told is None and not is_reachable(reply):
            logger.warning("the broker %s is out of reach: runs come with the hub's answers", without_password(reply))
            self._post = OwnBroker(self._settings.folder("broker"))
        return joined if self._post is None else joined.model_copy(update=self._post.address)

    def _deliver(self, tasks: tuple[RunTask, ...]) -> None:
        """Pass on runs from the hub's answer as if they had come through the broker."""
        for task in tasks:
            forwarded = [runs for runs in self._beside if runs.queue == task.queue]
            for runs in forwarded:
                runs.take((task.run_id,), self._places.worker_id)
            if not forwarded and self._post is not None:
                self._post.send(task, self._places.worker_id)

    def _forget_hub(self) -> None:
        """Join again, to report a change."""
        self._joined = None
        self._wake.set()

    def _oldest_run(self) -> float | None:
        began = [self._places.oldest, *(runs.oldest for runs in self._beside)]
        return min((moment for moment in began if moment is not None), default=None)

    def _on_free(self, claimed: bool) -> None:
        """Send a beat at once when a place is free, unless the run that had it was not claimed."""
        if claimed:
            self._wake.set()


def engine_settings(settings: WorkerEnvironment) -> EngineSettings:
    """Extract what the engine manager needs."""
    return EngineSettings(
        data=settings.data,
        vllm_python=settings.vllm_python,
        vllm_arguments=settings.vllm_arguments,
        idle_seconds=settings.engine_idle_s,
        threads=settings.engine_threads,
    )


async def work(settings: WorkerEnvironment, answers: TextIO) -> None:
    """Run the host process until its input ends."""
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    first = Told.model_validate_json(await orders.readline())
    async with HubClient(settings.hub, settings.token.get_secret_value(), patience_s=0) as hub:
        await Host(settings, hub, first, answers).run(orders)


def main() -> None:
    """Start the host process; serve until standard input ends."""
    settings = load()
    start_logging(settings.log_level, settings.log_format, worker=settings.name)
    leave_out_bad_requests()
    die_with_parent()
    start_tracing("envhub-worker", {"envhub.worker": settings.name})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # everything printed goes to the log
    asyncio.run(work(settings, answers))


if __name__ == "__main__":
    main()
