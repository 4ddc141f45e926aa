"""A living box, controlled through its agent.

All backends share it; each supplies how to end the box and how to measure its use.
"""

import asyncio
import contextlib
import errno
import functools
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from . import cpu_time
from .channel import Channel, received_listener, received_stream, sealed_file
from .errors import BoxExpired, BoxFailed, BoxGone, BoxKilled, BoxOutOfMemory, FileRefused, TooLarge
from .interface import GATEWAY_PORT, HOME, PROXY_PORT, BoxSpec, ExecResult, OnOutput, Stats
from .kept_changes import ChangesLine
from .output import Drain
from .variables import variables

REFUSED, TOO_LARGE = 3, 4  # exit codes of agent.py
KILL_PATIENCE = 5.0
FILE_SECONDS = 120.0
SIGKILL_CODE = 137
NO_STATS = Stats(None, None, None, None, 0)
SIZE_BYTES = 8
MOST_LEFT = 256  # pipes of ended commands that processes in the box still hold; each is a descriptor of this process


class AgentJob:
    """One started command. `wait` may be called several times."""

    def __init__(self, box: "AgentBox", number: int, done: asyncio.Future[int], drains: tuple[Drain, Drain]) -> None:
        self._box = box
        self._number = number
        self._drains = drains
        self._ooms = box.oom_kills()
        self._timed_out = False
        self._result = asyncio.ensure_future(self._finish(done))
        self._result.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _finish(self, done: asyncio.Future[int]) -> ExecResult:
        try:
            code = await done
            if self._box.gone:  # the box's end killed the command first, then the agent
                raise self._box.gone
        except BaseException as error:
            for drain in self._drains:
                drain.close()
            if not (isinstance(error, BoxGone) and self._box.ended_by_memory(self._ooms)):
                raise
            code = SIGKILL_CODE  # the out-of-memory kill ended the whole box
        for drain in self._drains:
            drain.finish()
        self._box.leave_open(self._drains)
        out, err = self._drains
        oom = code != 0 and self._box.ran_out_of_memory(self._ooms)
        self._box.survived = self._box.measure()
        truncated = out.truncated or err.truncated
        return ExecResult(code, bytes(out.kept), bytes(err.kept), truncated, self._timed_out, oom)

    async def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._result)
        except TimeoutError:
            self._timed_out = True
            await self.kill()
            return await asyncio.shield(self._result)

    def hold_output(self, held: bool) -> None:
        for drain in self._drains:
            drain.hold(held)

    async def kill(self) -> None:
        """Kill the command, or the whole box if the agent does not answer in time: a process in the box may have
        stopped it."""
        if self._result.done():
            return
        await self.signal(signal.SIGKILL)
        await asyncio.wait([self._result], timeout=KILL_PATIENCE)
        if not self._result.done():
            await self._box.kill()

    async def signal(self, number: int) -> None:
        if not self._result.done():
            with contextlib.suppress(BoxGone):
                await self._box.channel.send("kill", self._number, signal=number)


class AgentBox:
    """Implements interface.Box. `end` kills the box from outside and is safe to call twice."""

    def __init__(
        self,
        box_id: str,
        spec: BoxSpec,
        channel: Channel,
        *,
        end: Callable[[], None],
        by_signal: Callable[[], Awaitable[bool]],
        stats: Callable[[], Stats] = lambda: NO_STATS,
        locate: Callable[[str], str] = lambda path: path,
        line: ChangesLine | None = None,
    ) -> None:
        self.id = box_id
        self.spec = spec
        self.channel = channel
        self.gateway_url = f"http://127.0.0.1:{GATEWAY_PORT}"
        self.proxy_url = f"http://127.0.0.1:{PROXY_PORT}"
        self.gone: BoxGone | None = None  # why it was ended by this object
        self.out_of_memory = False
        self.survived = NO_STATS  # when the last command ended: the box outlived the kills until then
        self._end = end
        self._by_signal = by_signal
        self._stats = stats
        self._locate = locate
        self._line = line
        self._drains: set[Drain] = set()
        self._left: dict[Drain, None] = {}  # of ended commands, oldest first
        self._counted = 0.0  # CPU seconds already counted
        cpu_time.follow(self._count)

    def path(self, box_path: str) -> str:
        return self._locate(box_path)

    def measure(self) -> Stats:
        return self._stats()

    def oom_kills(self) -> int:
        return self._stats().oom_kills

    def ran_out_of_memory(self, before: int) -> bool:
        """Return whether memory ran out since `before` out-of-memory kills were counted."""
        return self.out_of_memory or self.oom_kills() > before

    def ended_by_memory(self, before: int) -> bool:
        """Return whether the box has ended because memory ran out since `before` out-of-memory kills were counted."""
        return isinstance(self.gone, BoxOutOfMemory) if self.gone else self.ran_out_of_memory(before)

    def environment(self, extra: Mapping[str, str] | None) -> dict[str, str]:
        """Return a command's variables: the box's defaults, then the specification's, then the command's."""
        return variables(self.spec, self.path, self.proxy_url) | dict(self.spec.env) | dict(extra or {})

    async def start_job(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_output: OnOutput | None = None,
        output_limit: int | None = None,
        stdin: bytes | int = b"",
        terminal: bool = False,
    ) -> AgentJob:
        payload = {
            "argv": list(argv),
            "env": self.environment(env),
            "cwd": self.path(cwd or self._home),
            "terminal": terminal,
        }
        if isinstance(stdin, int):
            return await self._job("exec", payload, stdin, on_output, output_limit, terminal=terminal)
        source = sealed_file(stdin)
        try:
            return await self._job("exec", payload, source, on_output, output_limit)
        finally:
            os.close(source)

    async def _job(
        self,
        operation: str,
        payload: Mapping[str, object],
        stdin: int,
        on_output: OnOutput | None = None,
        output_limit: int | None = None,
        *,
        terminal: bool = False,
    ) -> AgentJob:
        limit = self.spec.limits.output_bytes if output_limit is None else output_limit
        out = Drain(limit, functools.partial(on_output, "stdout") if on_output else None)
        err = Drain(limit, functools.partial(on_output, "stderr") if on_output else None)
        try:
            streams = [stdin] * 3 if terminal else [stdin, out.write_end, err.write_end]
            number, done = await self.channel.request(operation, payload, streams)
        except BaseException:
            out.close()
            err.close()
            raise
        out.close_write_end()
        err.close_write_end()
        self._drains = {drain for drain in self._drains if not drain.ended.is_set()} | {out, err}
        return AgentJob(self, number, done, (out, err))

    def leave_open(self, drains: Sequence[Drain]) -> None:
        """Keep the pipes of an ended command for what it left running, and close the oldest beyond MOST_LEFT."""
        self._left = {drain: None for drain in (*self._left, *drains) if not drain.ended.is_set()}
        while len(self._left) > MOST_LEFT:
            oldest = next(iter(self._left))
            del self._left[oldest]
            oldest.close()

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: bytes = b"",
        output_limit: int | None = None,
    ) -> ExecResult:
        job = await self.start_job(argv, env=env, cwd=cwd, output_limit=output_limit, stdin=stdin)
        try:
            return await job.wait(self.spec.limits.exec_seconds if timeout is None else timeout)
        except asyncio.CancelledError:
            await job.kill()
            raise

    async def put(self, path: str, content: bytes | Path, *, mode: int = 0o644) -> None:
        payload = {"path": self.path(path), "mode": mode, "follow": self._follows}
        if isinstance(content, bytes):
            source = sealed_file(content)
            try:
                job = await self._job("put", payload, source)
            finally:
                os.close(source)
            result = await job.wait(FILE_SECONDS)
        else:
            result = await self._put_file(payload, content)
        self._raise_refused(path, result)

    async def _put_file(self, payload: Mapping[str, object], content: Path) -> ExecResult:
        """Stream a host file through a pipe, so that the box never holds a descriptor of a host file."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            job = await self._job("put", payload, reading)
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        pump = asyncio.create_task(asyncio.to_thread(_pump, content, writing))
        result = await job.wait(FILE_SECONDS)
        await pump
        return result

    async def get(self, path: str, limit: int) -> bytes:
        payload = {"path": self.path(path), "limit": limit, "follow": self._follows}
        result = await self._read("get", payload, limit)
        if result.truncated:
            raise TooLarge(f"{path} has more than {limit} bytes")
        self._raise_refused(path, result, limit)
        return result.stdout

    async def window(self, path: str, offset: int, length: int) -> tuple[bytes, int]:
        payload = {"path": self.path(path), "offset": offset, "length": length, "follow": self._follows}
        result = await self._read("window", payload, SIZE_BYTES + length)
        self._raise_refused(path, result)
        return result.stdout[SIZE_BYTES:], int.from_bytes(result.stdout[:SIZE_BYTES], "big")

    async def _read(self, operation: str, payload: Mapping[str, object], limit: int) -> ExecResult:
        source = sealed_file(b"")
        try:
            job = await self._job(operation, payload, source, output_limit=limit)
        finally:
            os.close(source)
        return await job.wait(FILE_SECONDS)

    async def connect(self, port: int) -> socket.socket:
        near, far = socket.socketpair()
        with near:
            try:
                job = await self._job("connect", {"port": port}, far.fileno())
            finally:
                far.close()
            result = await job.wait(FILE_SECONDS)
            if result.exit_code:
                raise ConnectionRefusedError(f"nothing listens on port {port} of the sandbox")
            return received_stream(near, port)

    async def listen(self, port: int) -> socket.socket:
        near, far = socket.socketpair()
        with near:
            try:
                job = await self._job("listen", {"port": port}, far.fileno())
            finally:
                far.close()
            result = await job.wait(FILE_SECONDS)
            if result.exit_code:
                reason = result.stderr[:200].decode(errors="replace").strip()
                raise OSError(errno.EADDRINUSE, f"port {port} of the box cannot be listened on: {reason}")
            return received_listener(near, port)

    @property
    def _home(self) -> str:
        return "/" if self.spec.root else HOME

    @property
    def _follows(self) -> bool:
        """Whether files may be reached through links. In an image links are common, and they cannot lead out of it."""
        return self.spec.root is not None

    def _raise_refused(self, path: str, result: ExecResult, limit: int = 0) -> None:
        if result.exit_code == 0:
            return
        if result.exit_code == TOO_LARGE:
            raise TooLarge(f"{path} has more than {limit} bytes")
        if result.exit_code == REFUSED:
            reason = result.stderr[:200].decode(errors="replace").strip()
            raise FileRefused(f"{path}: {reason}")
        raise BoxFailed(f"{path}: the transfer ended with status {result.exit_code}", "a limit of the box?")

    async def stats(self) -> Stats:
        return self._stats()

    def changes(self) -> int:
        if self._line is None:
            raise LookupError("this box does not keep changes to its image")
        return self._line.receive()

    def expire(self) -> None:
        """End the box because its lifetime is over."""
        self.gone = BoxExpired("the box's lifetime is over")
        self._expiring = asyncio.ensure_future(self.kill())

    async def ended(self) -> BoxGone:
        await self.channel.closed.wait()
        error = self.channel.error
        if self.gone is not None:
            return self.gone
        if self.ran_out_of_memory(self.survived.oom_kills):
            return BoxOutOfMemory("its memory limit ended the box")
        if self._stats().host_kills > self.survived.host_kills:
            return BoxKilled("the host ran out of memory")
        if isinstance(error, BoxKilled):
            by_signal = await self._by_signal()
            return BoxKilled("it was killed from outside") if by_signal else BoxGone("all in it was killed from within")
        return error

    async def kill(self) -> None:
        self._count()
        cpu_time.leave(self._count)
        self._end()
        self.channel.close(self.gone or BoxGone("the box was killed"))
        for drain in self._drains:
            drain.close()

    def _count(self) -> None:
        """Count the CPU time used since the last call."""
        used = self._stats().cpu_seconds or 0.0
        cpu_time.add(max(0.0, used - self._counted))
        self._counted = max(self._counted, used)


def _pump(content: Path, writing: int) -> None:
    with content.open("rb") as source, contextlib.suppress(BrokenPipeError), open(writing, "wb", buffering=0) as sink:
        while chunk := source.read(1 << 16):
            sink.write(chunk)
