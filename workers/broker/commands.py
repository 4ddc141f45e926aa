"""A bounded record of the commands that ran in a sandbox, and of those that run in it now."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from workers.broker.interface import Command
from workers.sandbox import BoxGone, ExecResult

KEPT = 500  # commands per sandbox: half of them the first, half the last
HEAD, TAIL = 1024, 3072  # bytes kept of a command's output
ARGUMENTS = 4096  # characters kept of a command line
KILLED = 137  # the exit status of what a sandbox's end kills


@dataclass(frozen=True, eq=False)
class Call:
    """A command that runs now."""

    argv: tuple[str, ...]
    cwd: str
    began: datetime
    clock: float  # of time.monotonic(), at its start


class Commands:
    """The first and the last commands of a sandbox, with secrets replaced by `masked`.

    `dropped` counts the others; `size` is about their size in characters.
    """

    def __init__(self, masked: Callable[[str], str] = str) -> None:
        self._masked = masked
        self._running: dict[Call, None] = {}
        self._first: list[Command] = []
        self._last: deque[Command] = deque()
        self.dropped = 0
        self.size = 0

    def begin(self, argv: Sequence[str], cwd: str) -> Call:
        """Note that a command starts. end() or fail() must follow."""
        shown = shortened_arguments([self._masked(argument) for argument in argv])
        call = Call(shown, cwd[:ARGUMENTS], datetime.now(UTC), time.monotonic())
        self._running[call] = None
        return call

    def end(self, call: Call, result: ExecResult) -> None:
        """Record a command with its result."""
        self._running.pop(call, None)
        output, cut = shortened(*map(self._masked_output, (result.stdout, result.stderr)))
        self.add(
            Command(
                argv=call.argv,
                cwd=call.cwd,
                began=call.began,
                seconds=time.monotonic() - call.clock,
                exit_code=result.exit_code,
                output=output,
                truncated=cut or result.truncated,
                timed_out=result.timed_out,
            )
        )

    def fail(self, call: Call, error: BaseException) -> None:
        """Record a command as unfinished if its sandbox or its caller ended before it; others never started."""
        self._running.pop(call, None)
        if isinstance(error, (BoxGone, asyncio.CancelledError)):
            self.add(_unfinished(call))

    def add(self, command: Command) -> None:
        self.size += size_of(command)
        if len(self._first) < KEPT // 2:
            self._first.append(command)
            return
        self._last.append(command)
        if len(self._last) > KEPT // 2:
            self.size -= size_of(self._last.popleft())
            self.dropped += 1

    def all(self) -> Sequence[Command]:
        """Return what is kept; the commands that still run come last."""
        return [*self._first, *self._last, *map(_unfinished, self._running)]

    def _masked_output(self, stream: bytes) -> bytes:
        return self._masked(stream.decode(errors="replace")).encode(errors="replace")

    def forget(self) -> None:
        """Drop all commands but keep their count."""
        self.dropped += len(self._first) + len(self._last)
        self._first, self._last, self.size = [], deque(), 0


def size_of(command: Command) -> int:
    """Return the approximate size of a command record."""
    return len(command.output) + sum(map(len, command.argv)) + len(command.cwd) + 500


def _unfinished(call: Call) -> Command:
    seconds = time.monotonic() - call.clock
    return Command(call.argv, call.cwd, call.began, seconds, exit_code=KILLED, output="", unfinished=True)


def shortened(*streams: bytes) -> tuple[str, bool]:
    """Return the head and tail of all output, and whether something was cut out between them."""
    text = b"\n".join(stream.rstrip(b"\n") for stream in streams if stream)
    if len(text) <= HEAD + TAIL:
        return text.decode(errors="replace"), False
    left_out = len(text) - HEAD - TAIL
    middle = f"\n[... {left_out} bytes ...]\n".encode()
    return (text[:HEAD] + middle + text[-TAIL:]).decode(errors="replace"), True


def shortened_arguments(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command line, cut to ARGUMENTS characters."""
    left, kept = ARGUMENTS, []
    for argument in argv:
        kept.append(argument[:left])
        left -= len(kept[-1]) + 1
        if left <= 0:
            break
    return tuple(kept)
