"""A session of the broker whose sandboxes are plain processes of this host: no isolation, the host's own files."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from workers.broker.interface import Command, Held, NotThere, OnOutput, Process, State, Wish
from workers.images.interface import ImageLacking
from workers.sandbox import ExecResult, FileRefused, Stats, TooLarge

LACKING_IMAGE = "registry.example.org/lacking:1"
SLOW_IMAGE = "registry.example.org/slow:1"  # stays pending until it is started by hand


class FakeProcess:
    """See interface.Process."""

    def __init__(self, pid: int, process: asyncio.subprocess.Process, on_output: OnOutput | None, stdin: bytes) -> None:
        self.pid = pid
        self._process = process
        self._on_output = on_output
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._ended = asyncio.create_task(self._follow(stdin))

    async def _follow(self, stdin: bytes) -> ExecResult:
        process = self._process
        kept: dict[str, list[bytes]] = {"stdout": [], "stderr": []}

        async def drain(name: str, stream: asyncio.StreamReader) -> None:
            while data := await stream.read(65536):
                await self._flowing.wait()
                kept[name].append(data)
                if self._on_output is not None:
                    self._on_output(name, data)  # type: ignore[arg-type]

        if stdin and process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        assert process.stdout is not None
        assert process.stderr is not None
        drains = [asyncio.create_task(drain(*it)) for it in (("stdout", process.stdout), ("stderr", process.stderr))]
        code = await process.wait()
        await self._flowing.wait()
        await asyncio.wait(drains, timeout=0.2)  # what it left in the background may hold them
        for task in drains:
            task.cancel()
        return ExecResult(code if code >= 0 else 128 - code, b"".join(kept["stdout"]), b"".join(kept["stderr"]))

    async def wait(self, timeout: float | None = None) -> ExecResult:
        done, _ = await asyncio.wait([self._ended], timeout=timeout)
        if not done:
            await self.signal(signal.SIGKILL)
            return replace(await self._ended, timed_out=True)
        return await asyncio.shield(self._ended)

    async def write(self, data: bytes, patience_s: float = 60.0) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def resize(self, rows: int, columns: int) -> None:
        """It has no terminal."""

    def hold_output(self, held: bool) -> None:
        if held:
            self._flowing.clear()
        else:
            self._flowing.set()


class FakeHeld:
    """See interface.Held. `break_off` ends it as the broker would."""

    def __init__(self, number: int, wish: Wish, rollout: str) -> None:
        self.id = f"sb{number:06x}"
        self.wish = wish
        self.rollout = rollout
        self.state = State.PENDING
        self.reason = ""
        self.by_host = False
        self.waits_for = ""
        self.exit_code: int | None = None
        self.created = datetime.now(UTC)
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.cpus = min(wish.cpus or 1.0, 2.0)
        self.memory_mb = wish.memory_mb or 1024
        self.disk_mb = wish.disk_mb or 1024
        self.lifetime_s = wish.lifetime_s or 3600.0
        self.commands: list[Command] = []
        self.default_command: tuple[str, ...] = ()
        self.processes: dict[int, FakeProcess] = {}
        self._pids = itertools.count(1)
        self._settled = asyncio.Event()
        self._error: Exception | None = None
        if wish.image == LACKING_IMAGE:
            self._error = ImageLacking(wish.image, "no registry has this image", "name another")
            self.break_off(State.FAILED, "no registry has this image")
        elif wish.image != SLOW_IMAGE:
            self.begin()

    def begin(self) -> None:
        self.state, self.started = State.RUNNING, datetime.now(UTC)
        self._settled.set()

    def break_off(self, state: State, reason: str = "") -> None:
        if not self.state.final:
            self.state, self.reason, self.ended = state, reason, datetime.now(UTC)
        self._settled.set()

    async def ready(self) -> None:
        await self._settled.wait()
        if self.state.final:
            raise NotThere(self.reason or "it has ended", state=self.state) from self._error

    async def exec(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None,
        user: str | None = None, timeout: float | None = None, stdin: bytes = b"", output_limit: int | None = None,
        recorded: bool = True,
    ) -> ExecResult:  # fmt: skip
        process = await self.start(argv, env=env, cwd=cwd, user=user)
        result = await process.wait(timeout)
        await self.ready()
        return result

    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None,
        user: str | None = None, on_output: OnOutput | None = None, stdin: bool = False,
        terminal: tuple[int, int] | None = None, recorded: bool = True,
    ) -> FakeProcess:  # fmt: skip
        await self.ready()
        process = await asyncio.create_subprocess_exec(
            *argv, env={"PATH": os.environ["PATH"], **self.wish.env, **(env or {})}, cwd=cwd or "/",
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        started = FakeProcess(next(self._pids), process, on_output, b"")
        self.processes[started.pid] = started
        return started

    def process(self, pid: int) -> Process | None:
        return self.processes.get(pid)

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self.ready()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    async def get(self, path: str, limit: int) -> bytes:
        data, size = await self.window(path, 0, limit)
        if size > limit:
            raise TooLarge(f"{path} is too large")
        return data

    async def window(self, path: str, offset: int, length: int) -> tuple[bytes, int]:
        await self.ready()
        if not Path(path).is_file():
            raise FileRefused(f"{path} is not there")
        content = Path(path).read_bytes()
        begin = max(0, len(content) + offset) if offset < 0 else offset
        return content[begin : begin + length], len(content)

    def log(self) -> bytes:
        return b"started\n"

    async def restrict(self, allow_hosts: Collection[str]) -> None:
        self.wish = replace(self.wish, allow_hosts=tuple(allow_hosts))

    async def connect(self, port: int) -> socket.socket:
        stream = socket.socket()
        stream.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(stream, ("127.0.0.1", port))
        except OSError:
            stream.close()
            raise
        return stream

    async def stats(self) -> Stats:
        return Stats(None, None, None, None, 0)

    async def end(self, state: State = State.STOPPED, reason: str = "") -> None:
        self.break_off(state, reason)
        for process in self.processes.values():
            await process.signal(signal.SIGKILL)


class FakeSession:
    """See interface.Session."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, FakeHeld] = {}

    async def create(self, wish: Wish, *, rollout: str = "") -> Held:
        held = FakeHeld(len(self.sandboxes) + 1, wish, rollout)
        self.sandboxes[held.id] = held
        return held

    def find(self, sandbox_id: str) -> FakeHeld | None:
        return self.sandboxes.get(sandbox_id)

    def all(self) -> Sequence[FakeHeld]:
        return list(self.sandboxes.values())


@contextlib.asynccontextmanager
async def fake_session() -> AsyncIterator[FakeSession]:
    """One whose processes end with it."""
    session = FakeSession()
    try:
        yield session
    finally:
        for held in session.all():
            await held.end()
