"""Commands that were started in a sandbox and keep running: their input, terminal and end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable

from workers.broker.interface import InputUnread
from workers.sandbox import ExecResult
from workers.sandbox.interface import Job

PIECE = 1 << 16
PATIENCE_S = 60.0  # seconds to wait for a program that does not read its input


class Input:
    """Our end of a command's standard input: a pipe, or a terminal, which also carries its output."""

    def __init__(self, near: int, far: int, on_output: Callable[[bytes], None] | None = None) -> None:
        self.far = far
        self._near = near
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._writing = asyncio.Lock()
        os.set_blocking(near, False)
        if on_output is not None:
            self._loop.add_reader(near, self._readable)

    @classmethod
    def pipe(cls) -> Input:
        far, near = os.pipe2(os.O_CLOEXEC)
        return cls(near, far)

    @classmethod
    def terminal(cls, size: tuple[int, int], on_output: Callable[[bytes], None]) -> Input:
        near, far = pty.openpty()
        made = cls(near, far, on_output)
        made.resize(*size)
        return made

    def resize(self, rows: int, columns: int) -> None:
        if self._on_output is not None and self._near >= 0:
            fcntl.ioctl(self._near, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def write(self, data: bytes, patience_s: float = PATIENCE_S) -> None:
        """Write all data unless the program has ended. Raises InputUnread if that takes longer."""
        view = memoryview(data)
        try:
            async with asyncio.timeout(patience_s), self._writing:
                while view and self._near >= 0:
                    try:
                        view = view[os.write(self._near, view[:PIECE]) :]
                    except BlockingIOError:
                        await asyncio.sleep(0.01)
        except TimeoutError as error:
            raise InputUnread(len(data) - len(view)) from error
        except OSError:  # the other end is closed
            return

    def hand_over(self) -> None:
        """Close our copy of the command's end; the command has its own."""
        if self.far >= 0:
            os.close(self.far)
            self.far = -1

    def close(self) -> None:
        self.hand_over()
        if self._near >= 0:
            if self._on_output is not None:
                self._loop.remove_reader(self._near)
                self._drain()
            os.close(self._near)
            self._near = -1

    def end_of_file(self) -> None:
        """Close a pipe, or send the end-of-file character (Ctrl-D) to a terminal."""
        if self._on_output is None:
            self.close()
        elif self._near >= 0:
            with contextlib.suppress(OSError):  # the terminal's buffer is full, or nobody has it open any more
                os.write(self._near, b"\x04")

    def hold(self, held: bool) -> None:
        """Stop or resume reading what the terminal shows. Does nothing for a pipe."""
        if self._on_output is None or self._near < 0:
            return
        if held:
            self._loop.remove_reader(self._near)
        else:
            self._loop.add_reader(self._near, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self._near, PIECE)
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody has the terminal open any more
            data = b""
        if not data:
            self._loop.remove_reader(self._near)
        elif self._on_output is not None:
            self._on_output(data)

    def _drain(self) -> None:
        """Read what the program wrote to the terminal before it ended."""
        while self._on_output is not None:
            try:
                data = os.read(self._near, PIECE)
            except OSError:
                return
            if not data:
                return
            self._on_output(data)


class Started:
    """Implements interface.Process."""

    def __init__(self, pid: int, job: Job, source: Input | None) -> None:
        self.pid = pid
        self._job = job
        self._source = source
        self.ended: asyncio.Task[ExecResult] = asyncio.create_task(self._follow())
        self.ended.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _follow(self) -> ExecResult:
        try:
            return await self._job.wait()
        finally:
            if self._source is not None:
                self._source.close()

    async def wait(self, timeout: float | None = None) -> ExecResult:
        if timeout is not None:
            await asyncio.wait([self.ended], timeout=timeout)
            if not self.ended.done():
                await self._job.wait(0)
        return await asyncio.shield(self.ended)

    async def write(self, data: bytes, patience_s: float = PATIENCE_S) -> None:
        if self._source is not None:
            await self._source.write(data, patience_s)

    async def close_input(self) -> None:
        if self._source is not None:
            self._source.end_of_file()

    async def signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            await self._job.kill()
        else:
            await self._job.signal(number)

    async def resize(self, rows: int, columns: int) -> None:
        if self._source is not None:
            self._source.resize(rows, columns)

    def hold_output(self, held: bool) -> None:
        self._job.hold_output(held)
        if self._source is not None:
            self._source.hold(held)
