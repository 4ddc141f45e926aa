"""`hub sandbox shell`: an interactive terminal over plain HTTP, one request that streams output and one for each input.

So it works through whatever lets HTTP through. Ctrl-] leaves it when nothing else does.
"""

from __future__ import annotations

import base64
import os
import queue
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Self

import typer

from envhub.cli.sandboxes.commands import ENDED, SandboxId
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.errors import ApiError, ConnectionFailed, EnvhubError, UsageError
from envhub.protocol.sandboxes.sandboxes import ProcessRequest, TerminalSize

LEAVE = b"\x1d"  # Ctrl-]
SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i")
CHUNK = 32 * 1024
KILL_S = 3.0  # seconds to wait for the hub when leaving
PATIENCE = 5  # keys in a row that do not arrive


def shell(
    ctx: typer.Context,
    sandbox_id: SandboxId,
    command: Annotated[list[str] | None, typer.Argument(help="Command to run instead of a shell, after `--`.")] = None,
    cwd: Annotated[str | None, typer.Option(help="Working directory (default: the image's).")] = None,
    json: JsonFlag = False,
) -> None:
    """Open a terminal in a sandbox. Exits with the shell's status; Ctrl-] disconnects."""
    session = current(ctx)
    if not sys.stdin.isatty():
        raise UsageError(
            "standard input is not a terminal", hint="To read a pipe, use `hub sandbox exec --stdin ID -- sh`."
        )
    request = ProcessRequest(
        argv=tuple(command or SHELL),
        cwd=cwd,
        env={"TERM": session.environ.get("TERM", "xterm")},
        terminal=_size(),
    )
    process = session.hub.sandboxes.start(sandbox_id, request)
    code: int | None = None
    keys = _Input(session, sandbox_id, process.pid)
    try:
        with _raw(), keys:
            code = _show(session, sandbox_id, process.pid)
    except KeyboardInterrupt:
        if keys.error is not None:
            raise keys.error from None
        raise
    finally:
        if code is None:
            _kill(session, sandbox_id, process.pid)
    raise typer.Exit(code)


def _kill(session: Session, sandbox_id: str, pid: int) -> None:
    """End the process, but do not wait long for a hub that does not answer."""

    def kill() -> None:
        with suppress(EnvhubError):
            session.hub.sandboxes.kill(sandbox_id, pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    thread.join(KILL_S)


def _show(session: Session, sandbox_id: str, pid: int) -> int:
    """Write what the terminal shows until the process has ended; its status. Raises EnvhubError."""
    for event in session.hub.sandboxes.output(sandbox_id, pid):
        if event.kind == "end":
            if event.exit_code is None:
                raise EnvhubError(f"the sandbox has ended: {event.reason}", code="sandbox_ended")
            return event.exit_code
        if event.kind == "output":
            data = base64.b64decode(event.data)
            while data:
                data = data[os.write(sys.stdout.fileno(), data) :]
    raise AssertionError("unreachable: the stream ends with an end, or raises")


def _size() -> TerminalSize:
    columns, rows = os.get_terminal_size(sys.stdin.fileno())
    return TerminalSize(rows=max(1, min(rows, 1000)), columns=max(1, min(columns, 1000)))


@contextmanager
def _raw() -> Iterator[None]:
    """Every key is passed on as it is; afterwards the terminal is as before."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed already is kept
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class _Input:
    """Passes keys and sizes on: one thread reads them, so that Ctrl-] always works, another waits for the hub.

    A signal's handler may not do it: it could interrupt a call of its own pool. `error` says why nothing arrives.
    """

    def __init__(self, session: Session, sandbox_id: str, pid: int) -> None:
        self.error: ApiError | ConnectionFailed | None = None
        self._hub = session.hub.sandboxes
        self._place = (sandbox_id, pid)
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._typed: queue.SimpleQueue[bytes | TerminalSize | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._sender = threading.Thread(target=self._pass_on, daemon=True)

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGWINCH, lambda *_: self._poke(b"r"))
        self._reader.start()
        self._sender.start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGWINCH, self._before)
        self._poke(b"q")
        self._typed.put(None)
        self._reader.join(2.0)
        self._sender.join(2.0)

    def _poke(self, what: bytes) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake, what)

    def _read(self) -> None:
        keys = sys.stdin.fileno()
        with suppress(OSError):  # the terminal is gone
            while True:
                ready, _, _ = select.select([keys, self._woken], [], [])
                if self._woken in ready:
                    if b"q" in os.read(self._woken, 64):
                        return
                    self._typed.put(_size())
                if keys in ready:
                    data = os.read(keys, CHUNK)
                    if not data or LEAVE in data:
                        break
                    self._typed.put(data)
        os.kill(os.getpid(), signal.SIGINT)

    def _pass_on(self) -> None:
        """A key that does not arrive is lost; after some in a row the shell is of no use."""
        lost = 0
        while (typed := self._typed.get()) is not None:
            try:
                if isinstance(typed, TerminalSize):
                    self._hub.resize(*self._place, typed)
                else:
                    self._hub.write(*self._place, typed)
                lost = 0
            except (ApiError, ConnectionFailed) as error:
                if error.code in ENDED:
                    return
                lost += 1
                if lost == PATIENCE:
                    self.error = error
                    os.kill(os.getpid(), signal.SIGINT)
                    return
