"""A command whose output a client streams, and to which it can return by the name it gave."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Sequence

from workers.broker.interface import Held, Process, Stream
from workers.broker.memory import Memory
from workers.broker.pieces import Pieces
from workers.broker.prime import messages
from workers.broker.prime.connect import RpcError
from workers.broker.prime.messages import StartRequest
from workers.sandbox import BoxGone, ExecResult, FileRefused, SandboxError

WAITING_LIMIT = 32 * 1024 * 1024  # bytes of output that a reader may lag behind
KEEPALIVE_S = 15.0
PIECE = 1024 * 1024  # bytes per message
KEYS_KEPT = 10_000


def killed(result: ExecResult) -> bool:
    """Return whether the sandbox may have ended together with this command."""
    return result.oom_killed or result.killed_from_outside


async def check_alive(held: Held) -> None:
    """Raise NotThere if the sandbox has ended, even if its state does not show it yet."""
    with contextlib.suppress(FileRefused):
        await held.window("/nothing", 0, 1)


class LiveProcess:
    """One command. The newest reader gets its output; output written while nobody reads is lost, as clients expect."""

    def __init__(self, request: StartRequest, memory: Memory) -> None:
        self.request = request
        self._memory = memory
        self.process: Process | None = None
        self.error: SandboxError | None = None
        self.result: ExecResult | None = None
        self._waiting = Pieces()
        self._behind = False
        self._news = asyncio.Event()
        self._reader = 0
        self._read_now = True  # keep output written before the first reader connects
        self._applied: dict[str, None] = {}
        self._unwanted = False
        self._launch: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def ended(self) -> bool:
        return self.result is not None or self.error is not None

    async def launch(self, held: Held, argv: Sequence[str], seconds: float | None) -> Process:
        """Start the command, once no matter how often this is called; kill it after `seconds`. Raises SandboxError."""
        if self._launch is None:
            self._launch = asyncio.create_task(self._start(held, argv, seconds))
        await asyncio.shield(self._launch)
        assert self.process is not None
        return self.process

    async def _start(self, held: Held, argv: Sequence[str], seconds: float | None) -> None:
        asked = self.request
        try:
            self.process = await held.start(
                argv, env=asked.env, cwd=asked.cwd,
                on_output=self._feed, stdin=asked.stdin, terminal=asked.terminal,
            )  # fmt: skip
        except SandboxError as error:
            self.error = error
            raise
        self._watch = asyncio.create_task(self._wait(held, self.process, seconds))
        if self._unwanted:
            await self.kill()

    async def kill(self) -> None:
        """End the command whose caller has gone, also if it is still being started, and drop its output."""
        self._unwanted = True
        self.forget()
        if self.process is not None and not self.ended:
            with contextlib.suppress(SandboxError):
                await self.process.signal(signal.SIGKILL)

    async def _wait(self, held: Held, process: Process, seconds: float | None) -> None:
        try:
            try:
                result = await process.wait(seconds)
                if killed(result):
                    await check_alive(held)
                self.result = result
            except BoxGone:
                await check_alive(held)
                raise
        except SandboxError as error:
            self.error = error
        finally:
            self._news.set()

    def first_time(self, key: str) -> bool:
        """Return whether an input or signal with this key is new. Clients repeat one when they got no answer."""
        if key and key in self._applied:
            return False
        if len(self._applied) >= KEYS_KEPT:
            self._applied.pop(next(iter(self._applied)))
        if key:
            self._applied[key] = None
        return True

    async def messages(self, seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the command's events until it ends.

        Raises RpcError when another reader takes over, or after `seconds`.
        """
        self._reader += 1
        mine, end = self._reader, asyncio.get_running_loop().time() + seconds
        self._read_now, self._behind = True, False
        self._news.set()
        try:
            yield messages.started(self.process.pid if self.process else 0)
            while True:
                self._news.clear()
                for message in self._written():
                    yield message
                if self._reader != mine:
                    raise RpcError("aborted", "the session was attached to anew")
                if self._behind:
                    raise RpcError("resource_exhausted", "the command writes more than is read; redirect it to a file")
                if self.ended and not self._waiting:
                    yield self._end()
                    return
                left = end - asyncio.get_running_loop().time()
                if left <= 0:
                    raise RpcError("deadline_exceeded", "the time for this call is over")
                if not self._waiting and not await self._something_new(min(left, KEEPALIVE_S)):
                    yield messages.keepalive()
        finally:
            if self._reader == mine:
                self._read_now = False
                self._drop()

    async def _something_new(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _written(self) -> list[bytes]:
        """Return the output that waits, as messages, about PIECE bytes at most."""
        taken, before = [], self._waiting.size
        while self._waiting and before - self._waiting.size < PIECE:
            stream, data = self._waiting.take()
            taken.append(messages.output("pty" if self.request.terminal else stream, data))
        self._memory.give_back(before - self._waiting.size)
        return taken

    def _end(self) -> bytes:
        if self.error is not None:
            raise self.error
        assert self.result is not None
        if self.result.timed_out:
            raise RpcError("deadline_exceeded", "the command was ended after its time")
        return messages.ended(self.result.exit_code)

    def _feed(self, stream: Stream, data: bytes) -> None:
        if not self._read_now or self._behind:
            return
        cost = self._waiting.cost(stream, data)
        if self._waiting.size + cost > WAITING_LIMIT or not self._memory.take(cost):
            self._behind = True
            self._drop()
        else:
            self._waiting.add(stream, data)
        self._news.set()

    def forget(self) -> None:
        """Drop all buffered output once nobody can ask for it any more."""
        self._read_now = False
        self._drop()

    def _drop(self) -> None:
        self._memory.give_back(self._waiting.size)
        self._waiting.clear()
