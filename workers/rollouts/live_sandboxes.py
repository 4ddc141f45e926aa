"""Reports a run's live sandboxes to the hub every few seconds, and ends those that a user there wants ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from envhub.errors import EnvhubError
from envhub.protocol.sandboxes.live import (
    MOST_LAST,
    MOST_LIVE,
    TELL_S,
    LiveCommand,
    LiveReply,
    LiveReport,
    LiveSandbox,
    command_line,
)

from workers.broker.broker import Broker
from workers.broker.interface import Command, NotThere, State
from workers.broker.machine import Machine
from workers.broker.use import Use
from workers.runs.errors import LeaseLost
from workers.runs.execution import Job
from workers.runs.hub import RunClient
from workers.runs.lease import Lease

logger = logging.getLogger(__name__)
LINE, OUTPUT = 300, 600  # characters


@asynccontextmanager
async def tell_of_sandboxes(job: Job, broker: Broker, *, every_s: float = TELL_S) -> AsyncIterator[None]:
    """Report the sandboxes in a background task during the block."""
    teller = Teller(job.run, job.lease, broker)
    task = asyncio.create_task(teller.keep_telling(every_s))
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(end, Exception):  # a bug: the run goes on without being shown
            logger.error("the sandboxes of run %s were no longer told of", job.run.run_id, exc_info=end)


class Teller:
    """Sends the reports; sends none while there is nothing to report."""

    def __init__(self, run: RunClient, lease: Lease, broker: Broker) -> None:
        self._run = run
        self._lease = lease
        self._broker = broker
        self._uses: dict[str, Use] = {}
        self._said = False  # that some are alive

    async def keep_telling(self, every_s: float) -> None:
        """Report until cancelled or the lease is lost. A report that fails because the hub is away is skipped."""
        failed = False  # on the last attempt, so that a failure is logged once
        while not self._lease.lost.is_set():
            await asyncio.sleep(every_s)
            try:
                await self.tell()
                failed = False
            except LeaseLost:
                return
            except EnvhubError as error:
                if not failed:
                    logger.warning("the hub is not told of the sandboxes of run %s: %s", self._run.run_id, error)
                failed = True

    async def tell(self) -> None:
        """Send one report and end the sandboxes named in the reply."""
        living = [machine for machine in self._broker.machines() if not machine.state.final]
        if not (living or self._said):
            return
        newest = sorted(living, key=lambda machine: machine.created, reverse=True)[:MOST_LIVE]
        self._uses = {machine.id: self._uses.get(machine.id) or Use(machine) for machine in newest}
        items = tuple([await self._seen(machine) for machine in newest])
        report = LiveReport(living=len(living), items=items)
        path = f"/runs/{self._run.run_id}/sandboxes"
        reply = await self._run.post(path, report, LiveReply, patience_s=0, traced=False)
        self._said = bool(living)
        for sandbox_id, person in reply.end.items():
            if await self._broker.end_for(sandbox_id, person):
                self._lease.log(f"{person} ended the sandbox {sandbox_id}")

    async def _seen(self, machine: Machine) -> LiveSandbox:
        use, commands = self._uses[machine.id], machine.commands
        with suppress(NotThere):  # it is just ending
            await use.look()
        return LiveSandbox(
            id=machine.id,
            rollout=self._broker.title_of(machine.rollout),
            image=machine.wish.image[:LINE],
            state="running" if machine.state is State.RUNNING else "pending",
            waits_for=machine.waits_for[:LINE],
            created_at=machine.created,
            memory_bytes=use.now.memory_bytes,
            memory_mb=machine.memory_mb,
            cpus=use.now.cpus,
            cpu_limit=machine.cpus,
            commands=machine.commands_dropped + len(commands),
            last=tuple(map(_shown, commands[-MOST_LAST:])),
        )


def _shown(command: Command) -> LiveCommand:
    return LiveCommand(
        line=command_line(command.argv)[:LINE],
        began=command.began,
        seconds=round(command.seconds, 3),
        exit_code=command.exit_code,
        timed_out=command.timed_out,
        unfinished=command.unfinished,
        output=command.output[-OUTPUT:],
    )
