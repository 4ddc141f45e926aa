"""The supervisor's side of its slots: start them, hand them runs, start them anew when they die."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from envhub.protocol.gpus import Gpu

from workers.runs.children import Children
from workers.runs.gpu_pool import GpuPool
from workers.tasks.slot import Done, Order

logger = logging.getLogger(__name__)
RESTART_S, LONGEST_RESTART_S = 0.5, 30.0


@dataclass
class Slot:
    """One slot of a queue. `run_id` and `gpus` are of the order in hand; `on_free(claimed)` is called after it."""

    queue: str
    children: Children
    pool: GpuPool
    on_free: Callable[[bool], None]
    run_id: str | None = None
    gpus: tuple[Gpu, ...] = ()
    since: float | None = None  # when the order in hand was given, seconds since the epoch
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)
    _stopping: bool = False

    @property
    def idle(self) -> bool:
        """Whether it can take an order."""
        return self._process is not None and self.run_id is None and not self._stopping

    async def keep_alive(self) -> None:
        """Run the slot's process, again and again, until `stop`."""
        pause = RESTART_S
        while not self._stopping:
            started = asyncio.get_running_loop().time()
            try:
                await self._live_once()
            except OSError as error:  # a full disk: its record could not be written
                logger.error("a %s slot cannot start: %s", self.queue, error)
            if asyncio.get_running_loop().time() - started > LONGEST_RESTART_S:
                pause = RESTART_S
            if not self._stopping:
                logger.error("a %s slot died (it had run %s), starting it anew", self.queue, self.run_id)
                if self.run_id is not None:
                    await asyncio.to_thread(self.children.end_run, self.run_id)
                self._release(claimed=False)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_RESTART_S)

    async def give(self, order: Order) -> None:
        """Hand an order to an idle slot. Its GPUs go back to the pool when it is done."""
        assert self._process is not None
        assert self._process.stdin is not None
        self.run_id, self.gpus, self.since = order.run_id, order.gpus, time.time()
        with suppress(ConnectionError):  # it died this moment: keep_alive sees that
            self._process.stdin.write(order.model_dump_json().encode() + b"\n")
            await self._process.stdin.drain()

    async def stop(self, grace_s: float) -> None:
        """SIGTERM (a run in hand is given back to the hub), SIGKILL when the grace has passed."""
        self._stopping = True
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            logger.error("a %s slot did not stop in time", self.queue)
            self.children.end(process.pid)

    async def _live_once(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "workers.tasks.slot",
            self.queue,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self.children.record(process.pid, what=f"{self.queue} slot")
        self._process = process
        assert process.stdout is not None
        self.on_free(True)
        try:
            async for line in process.stdout:
                self._release(claimed=Done.model_validate_json(line).claimed)
            await process.wait()
        finally:
            self._process = None
            await asyncio.to_thread(self.children.end, process.pid)

    def _release(self, *, claimed: bool) -> None:
        self.pool.give_back(self.gpus)
        self.run_id, self.gpus, self.since = None, (), None
        self.on_free(claimed)
