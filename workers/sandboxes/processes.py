"""The processes that were started in a sandbox: what they write is kept, the last of it, for whoever asks later."""

from __future__ import annotations

import asyncio
import base64
import time
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from envhub.protocol.sandboxes.sandboxes import OutputEvent, ProcessRequest, ProcessView

from workers.broker.interface import Held, Process, Stream
from workers.sandbox import SandboxError

from .answers import Refused

KEPT_BYTES = 4 * 1024**2  # of the output of one process
PIECE_BYTES = 512  # that a piece costs at least: a program may write single bytes
AHEAD_BYTES = 1024**2  # that a process may write before its fastest reader has read them
MOST_RUNNING = 64
MOST_KEPT = 256  # with those that have ended
PING_S = 15.0  # a proxy on the way takes a silent stream for a dead one


class _Piece(NamedTuple):
    event: OutputEvent
    size: int
    end: int  # where in all of the output it ends


@dataclass
class Kept:
    """One process. Events are numbered from 1; those that fell out of the window are told as lost.

    Somebody who reads is never told so: the process waits meanwhile. Without a reader it does not wait.
    """

    argv: tuple[str, ...]
    process: Process | None = None
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    written: int = 0
    seconds: float | None = None  # once it has ended
    end: OutputEvent | None = None
    _clock: float = field(default_factory=time.monotonic)
    _pieces: deque[_Piece] = field(default_factory=deque)
    _kept_bytes: int = 0
    _seq: int = 0
    _readers: dict[object, int] = field(default_factory=dict)  # how far each has read, in bytes
    _held: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, stream: Stream, data: bytes) -> None:
        """Called with all that it writes."""
        self.written += len(data)
        self._kept_bytes += len(data) + PIECE_BYTES
        self._seq += 1
        text = base64.b64encode(data).decode()
        event = OutputEvent(seq=self._seq, kind="output", stream=stream, data=text)
        self._pieces.append(_Piece(event, len(data), self.written))
        while self._kept_bytes > KEPT_BYTES and len(self._pieces) > 1:
            self._kept_bytes -= self._pieces.popleft().size + PIECE_BYTES
        self._pace()
        self._wake()

    def _pace(self) -> None:
        """Holds the process's output back while its fastest reader is far behind."""
        behind = self.written - max(self._readers.values(), default=self.written)
        wanted = behind > AHEAD_BYTES
        if self.process is not None and self.end is None and wanted != self._held:
            self._held = wanted
            self.process.hold_output(wanted)

    def finish(self, exit_code: int | None, *, timed_out: bool = False, reason: str = "") -> None:
        """It has ended, or its sandbox."""
        self._seq += 1
        self.seconds = time.monotonic() - self._clock
        self.end = OutputEvent(
            seq=self._seq, kind="end", exit_code=exit_code, timed_out=timed_out, reason=reason, count=self.written
        )
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    @property
    def view(self) -> ProcessView:
        """As the API shows it."""
        seconds = time.monotonic() - self._clock if self.seconds is None else self.seconds
        return ProcessView(
            pid=self.process.pid if self.process else 0,
            argv=self.argv,
            started_at=self.began,
            seconds=seconds,
            exit_code=None if self.end is None else self.end.exit_code,
            ended=self.end is not None,
            timed_out=self.end is not None and self.end.timed_out,
            output_bytes=self.written,
        )

    async def follow(self, after: int, *, wait: bool) -> AsyncGenerator[OutputEvent, None]:
        """The events after number `after`; with `wait` until the last, and a ping now and then."""
        reader = object()
        try:
            while True:
                news = self._news
                first = self._pieces[0].event.seq if self._pieces else 0
                for piece in list(islice(self._pieces, max(0, after + 1 - first), None)):
                    self._readers[reader] = piece.end - piece.size
                    if (lost := piece.event.seq - 1 - after) > 0:
                        yield OutputEvent(seq=after + lost, kind="lost", count=lost)
                    after = piece.event.seq
                    yield piece.event
                    self._readers[reader] = piece.end
                    self._pace()
                if self.end is not None and after >= self.end.seq - 1:
                    yield self.end
                    return
                if not wait:
                    return
                if news is self._news and not await _within(PING_S, news):
                    yield OutputEvent(seq=after, kind="ping")
        finally:
            self._readers.pop(reader, None)
            self._pace()


async def _within(seconds: float, news: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await news.wait()
    except TimeoutError:
        return False


class Processes:
    """All of one sandbox. `close` when the sandbox has ended."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._kept: dict[int, Kept] = {}
        self._waiting: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether any runs."""
        return any(kept.end is None for kept in self._kept.values())

    def views(self) -> tuple[ProcessView, ...]:
        """Oldest first."""
        return tuple(kept.view for kept in self._kept.values())

    def get(self, pid: int) -> Kept:
        """Raises Refused."""
        kept = self._kept.get(pid)
        if kept is None:
            raise Refused(404, "process_not_found", f"no process {pid} was started here, or it ended long ago")
        return kept

    def live(self, pid: int) -> Process:
        """One that runs. Raises Refused."""
        kept = self.get(pid)
        if kept.end is not None or kept.process is None:
            raise Refused(409, "process_ended", f"process {pid} has ended")
        return kept.process

    async def start(self, request: ProcessRequest) -> Kept:
        """Start a command. Raises Refused, NotThere."""
        self._make_room()
        kept = Kept(request.words)
        size = request.terminal
        kept.process = await self._held.start(
            request.words,
            env=request.env,
            cwd=request.cwd,
            on_output=kept.take,
            stdin=request.stdin,
            terminal=(size.rows, size.columns) if size else None,
        )
        self._kept[kept.process.pid] = kept
        task = asyncio.create_task(_wait(kept, kept.process))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return kept

    def _make_room(self) -> None:
        if sum(kept.end is None for kept in self._kept.values()) >= MOST_RUNNING:
            raise Refused(409, "too_many_processes", f"{MOST_RUNNING} processes run already", hint="end some of them")
        ended = [pid for pid, kept in self._kept.items() if kept.end is not None]
        for pid in ended[: max(0, len(self._kept) - MOST_KEPT + 1)]:
            del self._kept[pid]

    async def close(self) -> None:
        """Wait for none of them any longer."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        for kept in self._kept.values():
            if kept.end is None:
                kept.finish(None, reason=self._held.reason or "the sandbox has ended")


async def _wait(kept: Kept, process: Process) -> None:
    try:
        result = await process.wait()
    except SandboxError as error:
        kept.finish(None, reason=error.message)
    else:
        kept.finish(result.exit_code, timed_out=result.timed_out, reason="out of memory" if result.oom_killed else "")
