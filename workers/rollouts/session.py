"""Controls one runner process in a box, for builds and evaluations: start, load, describe, run groups.

  async with open_runner(box, sockets=sockets, python=venv / "bin/python", log=lease.log) as runner:
    hello = await runner.load(Load(...)); described = await runner.describe()
    async for done in runner.run(Group(...)): ...

The box must have `sockets` as its socket directory and the runner bound in (see workers.rollouts.boxes).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envhub.protocol.runner import (
    Cancel,
    Describe,
    Described,
    Event,
    Fatal,
    Group,
    GroupDone,
    Hello,
    Load,
    Log,
    RolloutDone,
    RolloutSpilled,
    Shutdown,
)
from envhub.protocol.runs import Failure, FailureKind
from pydantic import ValidationError

from workers.rollouts.box_hints import explained
from workers.rollouts.boxes import RUNNER_MODULE, RUNNER_PATH
from workers.rollouts.channel import BadFrame, Channel
from workers.rollouts.errors import RunnerFatal, RunnerGone
from workers.rollouts.output import LineSplitter
from workers.sandbox.errors import BoxKilled, SandboxError
from workers.sandbox.interface import SOCKETS, Box, ExecResult, Job

logger = logging.getLogger(__name__)
CONNECT_S = 120.0  # from start to connection, with a cold interpreter on a busy host
LOAD_S = 600.0  # default limit, for loading and again for describing
SHUTDOWN_S = 10.0
GROUP_GRACE_S = 30.0  # beyond the rollouts' deadlines, before the runner counts as hung
SPILL_LIMIT = 64 * 1024**2
TASKS = {"load": "Loading the environment", "describe": "Describing the environment"}
Answer = TypeVar("Answer", Hello, Described)


@dataclass(frozen=True)
class Process:
    """The runner's process in the box; `ended` is one shared future for its end."""

    job: Job
    ended: asyncio.Future[ExecResult]

    async def epitaph(self) -> RunnerGone:
        """Explain why the process is gone, once its channel has closed."""
        await asyncio.wait([self.ended], timeout=2.0)
        if not self.ended.done() or self.ended.cancelled():
            return RunnerGone("the runner closed its channel")
        if (error := self.ended.exception()) is not None:
            return RunnerGone(f"the box is gone: {error}", outside=isinstance(error, BoxKilled))
        result = self.ended.result()
        if result.oom_killed:
            return RunnerGone("the box's memory limit ended the runner", oom=True)
        reason = f"the runner exited with status {result.exit_code}"
        return RunnerGone(reason, outside=result.killed_from_outside)

    async def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        with suppress(SandboxError):
            await self.job.kill()
        await asyncio.wait([self.ended], timeout=SHUTDOWN_S)
        self.ended.cancel()


class Runner:
    """A connected runner process. Several `run`s may be active at once; every wait ends if the process does."""

    def __init__(
        self, box: Box, channel: Channel, process: Process, log: Callable[[str], None], *, load_limit_s: float
    ) -> None:
        self.gateway_url = box.gateway_url
        self._box = box
        self._channel = channel
        self._process = process
        self._log = log
        self._load_limit_s = load_limit_s
        self._answers: asyncio.Queue[Hello | Described] = asyncio.Queue()
        self._asked = False  # an answer is expected; unexpected ones would pile up in our memory
        self._groups: dict[str, asyncio.Queue[RolloutDone | GroupDone | None]] = {}
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writing = asyncio.Lock()
        self._heard = 0.0  # loop time of the last valid rollout; other frames must not keep a group open
        self.in_flight = 0  # rollouts

    @property
    def alive(self) -> bool:
        """Whether the runner can still be given work."""
        return not self._gone.done()

    @property
    def end(self) -> BaseException | None:
        """Why the runner can be given no more work; None while it can."""
        return self._gone.exception() if self._gone.done() else None

    async def load(self, load: Load) -> Hello:
        """Import the package and make its environment. Raises RunnerFatal, RunnerGone."""
        return await self._ask(load, Hello)

    async def describe(self, rows: int = 3) -> Described:
        """Describe the environment. Raises RunnerFatal, RunnerGone."""
        return await self._ask(Describe(rows=rows), Described)

    async def run(self, group: Group) -> AsyncGenerator[RolloutDone, None]:
        """Yield the group's rollouts as they end, each at most once; leaving early cancels the group.

        Raises RunnerFatal, RunnerGone.
        """
        queue: asyncio.Queue[RolloutDone | GroupDone | None] = asyncio.Queue()
        self._groups[group.id] = queue
        self.in_flight += group.n
        open_indices = set(range(group.first_index, group.first_index + group.n))
        limit = longest_of(group)
        loop = asyncio.get_running_loop()
        deadline = None if limit is None else loop.time() + limit
        finished = False
        try:
            await self._send(group)
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        item = await queue.get()
                except TimeoutError:
                    if limit is None or (deadline := self._heard + limit) <= loop.time():
                        raise
                    continue  # the runner still finishes rollouts; this group's wait behind blocking ones
                if item is None:
                    self._gone.result()
                if not isinstance(item, RolloutDone):
                    finished = True
                    return
                if item.record.rollout in open_indices and item.record.example == group.example:
                    open_indices.remove(item.record.rollout)
                    self._heard = loop.time()
                    yield item
        except TimeoutError as error:
            self._end(RunnerGone("the environment blocked its runner past every deadline"))
            raise RunnerGone(f"the runner said nothing for {limit:.0f} s while group {group.id} ran") from error
        finally:
            del self._groups[group.id]
            self.in_flight -= group.n
            if not finished and self.alive:
                with suppress(RunnerGone):
                    await self._send(Cancel(id=group.id))

    async def close(self) -> None:
        """Let the environment tear down, within a time limit."""
        if self.alive:
            with suppress(RunnerGone, RunnerFatal):
                await self._send(Shutdown())
                await asyncio.wait([self._process.ended], timeout=SHUTDOWN_S)

    async def kill(self) -> None:
        """Kill the process at once."""
        self._end(RunnerGone("the runner was stopped"))
        await self._process.kill()
        self._channel.close()

    async def follow(self) -> None:
        """Read events until the process ends. open_runner runs this as a task."""
        try:
            while (event := await self._channel.read()) is not None:
                await self._take(event)
            self._end(await self._process.epitaph())
        except BadFrame as error:
            self._end(RunnerGone(f"the runner's channel broke: {error}"))
        except OSError:
            self._end(await self._process.epitaph())

    async def _take(self, event: Event) -> None:
        if isinstance(event, Hello | Described):
            if not self._asked:
                raise BadFrame(f"an answer ({event.type}) that nobody asked for")
            self._asked = False
            self._answers.put_nowait(event)
        elif isinstance(event, Log):
            self._log(event.text)
        elif isinstance(event, Fatal):
            failure = explained(event.failure, event.traceback)
            self._end(RunnerFatal(failure, event.traceback, event.needs, certain=event.certain))
        elif isinstance(event, RolloutSpilled):
            await self._fetch_spilled(event)
        elif (queue := self._groups.get(event.id)) is not None:
            queue.put_nowait(event)

    async def _fetch_spilled(self, event: RolloutSpilled) -> None:
        queue = self._groups.get(event.id)
        if queue is None:
            return
        try:
            done = RolloutDone.model_validate_json(await self._box.get(event.path, SPILL_LIMIT))
        except (SandboxError, ValidationError) as error:
            self._log(f"a rollout of group {event.id} was too large or unreadable: {error}"[:1000])
        else:
            queue.put_nowait(done.model_copy(update={"id": event.id}))
        with suppress(SandboxError):
            await self._box.exec(["/bin/rm", "-f", "--", event.path])

    async def _ask(self, command: Load | Describe, kind: type[Answer]) -> Answer:
        limit = self._load_limit_s
        self._asked = True
        await self._send(command)
        answer = asyncio.ensure_future(self._answers.get())
        watched: list[asyncio.Future[Any]] = [answer, self._gone]
        await asyncio.wait(watched, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            found = answer.result()
            if isinstance(found, kind):
                return found
            raise RunnerGone(f"the runner answered {command.type} by {found.type}")
        answer.cancel()
        if self._gone.done():
            self._gone.result()
        raise RunnerFatal(
            Failure(
                kind=FailureKind.ENVIRONMENT,
                code=f"{command.type}_timeout",
                message=f"{TASKS[command.type]} took longer than {limit:g} s (WORKER_LOAD_LIMIT_S).",
                hint="Loading must not wait for the network; data belongs into the package or the hub's data cache. "
                "An operator raises the limit.",
            )
        )

    async def _send(self, command: Load | Describe | Group | Cancel | Shutdown) -> None:
        if self._gone.done():
            self._gone.result()
        try:
            async with self._writing:
                await self._channel.write(command)
        except OSError as error:
            raise await self._process.epitaph() from error

    def _end(self, error: RunnerFatal | RunnerGone) -> None:
        if not self._gone.done():
            self._gone.set_exception(error)
            self._gone.exception()  # mark it as retrieved, since nobody may be waiting
            for queue in self._groups.values():
                queue.put_nowait(None)


def longest_of(group: Group) -> float | None:
    """Return the seconds after which a runner that reports nothing for a group is hung; None for no limit.

    Rollouts that are scored together get the same time again for scoring.
    """
    if group.deadline_s is None:
        return None
    once = 2 * group.deadline_s if group.n > 1 else group.deadline_s
    return once * (1 + group.max_retries) + GROUP_GRACE_S


@asynccontextmanager
async def open_runner(
    box: Box,
    *,
    sockets: Path,
    python: Path | str,
    log: Callable[[str], None],
    env: Mapping[str, str] | None = None,
    name: str = "channel",
    load_limit_s: float = LOAD_S,
) -> AsyncIterator[Runner]:
    """Start a runner with the environment's own interpreter and connect to it. Raises RunnerGone."""
    connected: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if connected.done():
            writer.close()  # a runner connects only once, so a second connection is not the runner
        else:
            connected.set_result(Channel(reader, writer))

    path = sockets / f"{name}.sock"
    server = await asyncio.start_unix_server(accept, path, limit=1024**2)
    path.chmod(0o666)  # the box may have another uid; only this box sees the directory
    lines = LineSplitter(log)
    variables = {
        # also finds console scripts and uvx
        "PATH": f"{Path(box.path(str(python))).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": box.path(str(Path(RUNNER_PATH).parent)),
        "ENVHUB_CHANNEL": box.path(f"{SOCKETS}/{name}.sock"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **(env or {}),
    }
    try:
        job = await box.start_job([box.path(str(python)), "-m", RUNNER_MODULE], env=variables, on_output=lines.feed)
        process = Process(job, asyncio.ensure_future(job.wait()))
        channel = await connection(connected, process, lines)
        runner = Runner(box, channel, process, log, load_limit_s=load_limit_s)
    finally:
        server.close()
        path.unlink(missing_ok=True)
    following = asyncio.create_task(runner.follow())
    try:
        yield runner
        await runner.close()
    finally:
        await runner.kill()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        lines.flush()


async def connection(connected: asyncio.Future[Channel], process: Process, lines: LineSplitter) -> Channel:
    """Wait for the runner to connect. Raises RunnerGone if it ends or takes too long."""
    try:
        watched: list[asyncio.Future[Any]] = [connected, process.ended]
        await asyncio.wait(watched, timeout=CONNECT_S, return_when=asyncio.FIRST_COMPLETED)
        if connected.done():
            return connected.result()
        lines.flush()
        gone = await process.epitaph()
        reason = f"{gone}; it printed: {lines.tail}" if process.ended.done() else f"no connection in {CONNECT_S:.0f} s"
        raise RunnerGone(f"the runner did not start: {reason}", oom=gone.oom, outside=gone.outside)
    except BaseException:
        await process.kill()
        raise
