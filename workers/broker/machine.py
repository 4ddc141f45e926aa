"""A sandbox with all the operations of interface.Held, and the record of what ran in it."""

from __future__ import annotations

import asyncio
import os
import posixpath
import socket
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from workers.broker.commands import Commands
from workers.broker.interface import Command, OnOutput, State, Wish
from workers.broker.life import Host, Life
from workers.broker.limits import MIB
from workers.broker.processes import Input, Started
from workers.sandbox import Box, Destination, ExecResult, SandboxError, Stats

LOG_BYTES = 256 * 1024
KEPT_OF_A_PROCESS = 64 * 1024
MOST_PROCESSES = 256
NO_STATS = Stats(None, None, None, None, 0)


class Machine:
    """Implements interface.Held. `rollout` is the key of the rollout it was made for, or ""."""

    def __init__(self, host: Host, wish: Wish, rollout: str) -> None:
        self.id = os.urandom(12).hex()
        self.wish = wish
        self.rollout = rollout
        self.exit_code: int | None = None
        self.created = datetime.now(UTC)
        self._commands = Commands(host.masked)
        self._log: deque[bytes] = deque()
        self._logged = 0
        self._processes: dict[int, Started] = {}
        self._pids = 0
        self._main: asyncio.Task[None] | None = None  # follows the command that runs for the sandbox's whole life
        self.life = Life(host, wish, rollout, self._born)

    @property
    def state(self) -> State:
        return self.life.state

    @property
    def reason(self) -> str:
        return self.life.reason

    @property
    def by_host(self) -> bool:
        return self.life.by_host

    @property
    def waits_for(self) -> str:
        return self.life.waits_for

    @property
    def started(self) -> datetime | None:
        return self.life.started

    @property
    def ended(self) -> datetime | None:
        return self.life.ended

    @property
    def cpus(self) -> float:
        return self.life.limits.cpus or 1.0

    @property
    def memory_mb(self) -> int:
        return (self.life.limits.memory_bytes - self.life.limits.disk_bytes) // MIB

    @property
    def disk_mb(self) -> int:
        return self.life.limits.disk_bytes // MIB

    @property
    def lifetime_s(self) -> float:
        return self.life.limits.lifetime_seconds

    @property
    def default_command(self) -> tuple[str, ...]:
        """The command of the sandbox's image; () while the image is not known."""
        return self.life.image.command if self.life.image is not None else ()

    @property
    def commands(self) -> Sequence[Command]:
        return self._commands.all()

    @property
    def commands_dropped(self) -> int:
        """How many commands ran whose record was dropped."""
        return self._commands.dropped

    @property
    def recorded(self) -> int:
        """Approximate size in bytes of the recorded commands."""
        return self._commands.size

    def forget_commands(self) -> None:
        """Drop the recorded commands but keep their count."""
        self._commands.forget()

    async def ready(self) -> None:
        await self.life.ready()

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: bytes = b"",
        output_limit: int | None = None,
        recorded: bool = True,
    ) -> ExecResult:
        async with self.life.use() as box:
            place = cwd or self.life.workdir
            commands = self._commands if recorded else Commands()
            call = commands.begin(argv, place)
            try:
                done = await box.exec(argv, env=env, cwd=place, timeout=timeout, stdin=stdin, output_limit=output_limit)
            except BaseException as error:
                commands.fail(call, error)
                raise
            commands.end(call, done)
            return done

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_output: OnOutput | None = None,
        stdin: bool = False,
        terminal: tuple[int, int] | None = None,
        recorded: bool = True,
    ) -> Started:
        if len(self._processes) >= MOST_PROCESSES:
            raise SandboxError(f"{MOST_PROCESSES} started commands are still running", "end some of them")
        async with self.life.use() as box:
            source = Input.pipe() if stdin else None
            if terminal is not None:
                source = Input.terminal(terminal, lambda data: on_output("stdout", data) if on_output else None)
            place = cwd or self.life.workdir
            try:
                job = await box.start_job(
                    argv, env=env, cwd=place, on_output=None if terminal else on_output,
                    output_limit=KEPT_OF_A_PROCESS, stdin=source.far if source else b"", terminal=terminal is not None,
                )  # fmt: skip
            except BaseException:
                if source is not None:
                    source.close()
                raise
            if source is not None:
                source.hand_over()
        self._pids += 1
        process = self._processes[self._pids] = Started(self._pids, job, source)
        self._follow(process, argv, place, self._commands if recorded else Commands())
        return process

    def _follow(self, process: Started, argv: Sequence[str], cwd: str, commands: Commands) -> None:
        self.life.begin_work()
        call = commands.begin(argv, cwd)

        def ended(task: asyncio.Task[ExecResult]) -> None:
            self.life.end_work()
            self._processes.pop(process.pid, None)
            if task.cancelled():
                commands.fail(call, asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                commands.fail(call, error)
            else:
                commands.end(call, task.result())

        process.ended.add_done_callback(ended)

    def process(self, pid: int) -> Started | None:
        return self._processes.get(pid)

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        async with self.life.use() as box:
            await box.put(self._absolute(path), content, mode=mode)

    async def get(self, path: str, limit: int) -> bytes:
        async with self.life.use() as box:
            return await box.get(self._absolute(path), limit)

    async def window(self, path: str, offset: int, length: int) -> tuple[bytes, int]:
        async with self.life.use() as box:
            return await box.window(self._absolute(path), offset, length)

    async def connect(self, port: int) -> socket.socket:
        async with self.life.use() as box:
            return await box.connect(port)

    async def restrict(self, allow_hosts: Collection[str]) -> None:
        await self.life.ready()
        self.wish = replace(self.wish, allow_hosts=tuple(allow_hosts))
        self.life.allow.clear()
        self.life.allow.update(map(Destination.of, allow_hosts))

    async def stats(self) -> Stats:
        return NO_STATS if self.state is not State.RUNNING else await (await self.life.ready()).stats()

    def log(self) -> bytes:
        return b"".join(self._log)

    async def end(self, state: State = State.STOPPED, reason: str = "") -> None:
        await self.life.end(state, reason)

    def _absolute(self, path: str) -> str:
        return posixpath.join(self.life.workdir, path)

    async def _born(self, box: Box) -> None:
        """Start the command that runs for the sandbox's whole life, if the wish names one."""
        if not self.wish.start_command:
            return
        job = await box.start_job(
            self.wish.start_command,
            cwd=self.life.workdir,
            on_output=lambda _, data: self._append(data),
            output_limit=0,
        )

        async def follow() -> None:
            self.exit_code = (await job.wait()).exit_code

        self._main = asyncio.create_task(follow())
        self._main.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _append(self, data: bytes) -> None:
        self._log.append(data)
        self._logged += len(data)
        while self._logged - len(self._log[0]) >= LOG_BYTES:
            self._logged -= len(self._log.popleft())
