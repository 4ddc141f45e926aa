"""`hub sandbox exec|run|logs`: commands, their output as it comes, their exit status as ours."""

from __future__ import annotations

import base64
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from envhub.cli.sandboxes.commands import (
    ENDED,
    Cpus,
    Disk,
    Env,
    Idle,
    Image,
    Memory,
    Models,
    Network,
    SandboxId,
    Timeout,
    request_of,
    variables,
    wait_for,
)
from envhub.cli.terminal.owners import Owner
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.errors import ApiError, ConnectionFailed, EnvhubError, UsageError
from envhub.protocol.sandboxes.sandboxes import BASE_IMAGE, OutputEvent, ProcessRequest

CHUNK = 64 * 1024
Command = Annotated[list[str], typer.Argument(help="The command, after `--`; one word with spaces is for a shell.")]
Cwd = Annotated[str | None, typer.Option(help="Working directory (default: the image's).")]
Stdin = Annotated[bool, typer.Option("--stdin", "-i", help="Pass standard input to the command.")]
Limit = Annotated[float | None, typer.Option("--limit", help="Kill the command after this many seconds.")]


def execute(
    ctx: typer.Context,
    sandbox_id: SandboxId,
    command: Command,
    cwd: Cwd = None,
    env: Env = None,
    stdin: Stdin = False,
    limit: Limit = None,
    json: JsonFlag = False,
) -> None:
    """Run a command in a sandbox, stream its output, and exit with its status."""
    session = current(ctx)
    request = process_of(command, cwd, env, stdin=stdin)
    raise typer.Exit(_run(session, sandbox_id, request, limit))


def run(
    ctx: typer.Context,
    command: Command,
    image: Image = BASE_IMAGE,
    cpus: Cpus = None,
    memory: Memory = None,
    disk: Disk = None,
    timeout: Timeout = None,
    idle: Idle = None,
    env: Env = None,
    network: Network = None,
    model: Models = None,
    cwd: Cwd = None,
    stdin: Stdin = False,
    limit: Limit = None,
    owner: Owner = None,
    json: JsonFlag = False,
) -> None:
    """Create a sandbox, run one command in it, end it, and exit with the command's status."""
    session = current(ctx)
    process = process_of(command, cwd, None, stdin=stdin)
    request = request_of(image=image, cpus=cpus, memory=memory, disk=disk, timeout=timeout, idle=idle, env=env,
                         network=network, model=model, owner=owner or session.configuration.owner)  # fmt: skip
    view = session.hub.sandboxes.create(request)
    try:
        wait_for(session, view)
        code = _run(session, view.id, process, limit)
    finally:
        session.hub.sandboxes.delete(view.id)
    raise typer.Exit(code)


def process_of(command: list[str], cwd: str | None, env: list[str] | None, *, stdin: bool) -> ProcessRequest:
    """One word with a blank in it is a line for a shell. Raises UsageError."""
    if not command:
        raise UsageError("no command given", hint="hub sandbox exec ID -- ls -l /tmp")
    line = command[0] if len(command) == 1 and " " in command[0] else None
    argv = None if line else tuple(command)
    return ProcessRequest(command=line, argv=argv, cwd=cwd, env=variables(env), stdin=stdin)


def _run(session: Session, sandbox_id: str, request: ProcessRequest, limit: float | None) -> int:
    """The exit status. Raises EnvhubError when the sandbox ended first, or our standard input did not arrive."""
    hub, kept = session.hub.sandboxes, bytearray()
    process = hub.start(sandbox_id, request)
    feed = _Feed(session, sandbox_id, process.pid)
    with _killed_after(session, sandbox_id, process.pid, limit):
        if request.stdin:
            feed.start()
        try:
            for event in hub.output(sandbox_id, process.pid):
                if event.kind == "end":
                    feed.check()
                    return _ended(session, event, kept, process.argv)
                _write(session, event, kept)
        except KeyboardInterrupt:
            feed.check()
            hub.kill(sandbox_id, process.pid)
            raise
    raise AssertionError("unreachable: the stream ends with an end, or raises")


def _write(session: Session, event: OutputEvent, kept: bytearray) -> None:
    if event.kind == "lost":
        session.note("part of the output is lost: it came faster than it could be read")
        return
    data = base64.b64decode(event.data)
    if session.json:
        kept += data
        return
    stream = sys.stderr if event.stream == "stderr" else sys.stdout
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _ended(session: Session, event: OutputEvent, kept: bytearray, argv: tuple[str, ...]) -> int:
    if event.exit_code is None:
        raise EnvhubError(f"the sandbox ended before {shlex.join(argv)[:80]}: {event.reason}", code="sandbox_ended")
    if session.json:
        session.show({"exit_code": event.exit_code, "output": kept.decode(errors="replace")}, lambda: None)
    elif event.reason:
        session.note(f"the command was killed: {event.reason}")
    return event.exit_code


@contextmanager
def _killed_after(session: Session, sandbox_id: str, pid: int, seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, session.hub.sandboxes.kill, (sandbox_id, pid))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Feed(threading.Thread):
    """Our standard input becomes the process's; the thread dies with us, whatever it still waits for."""

    def __init__(self, session: Session, sandbox_id: str, pid: int) -> None:
        super().__init__(daemon=True)
        self._hub = session.hub.sandboxes
        self._place = (sandbox_id, pid)
        self._error: EnvhubError | None = None

    def run(self) -> None:
        """Pass it on to its end."""
        try:
            while data := os.read(sys.stdin.fileno(), CHUNK):
                self._hub.write(*self._place, data)
            self._hub.write(*self._place, b"", end=True)
        except (ApiError, ConnectionFailed) as error:
            if error.code not in ENDED:
                self._give_up(error)

    def _give_up(self, error: EnvhubError) -> None:
        """Kill the process: it would wait for the rest, or take a part for the whole."""
        self._error = error
        try:
            self._hub.kill(*self._place)
        except EnvhubError:  # nor does its output end then
            os.kill(os.getpid(), signal.SIGINT)

    def check(self) -> None:
        """Raises EnvhubError if a part did not arrive."""
        if self._error is not None:
            raise EnvhubError(
                f"standard input was not passed on to its end: {self._error.message}",
                code=self._error.code,
                hint=self._error.hint,
            )


def logs(ctx: typer.Context, sandbox_id: SandboxId, json: JsonFlag = False) -> None:
    """Print the output of a sandbox's start command; if the sandbox has ended, the log of its run."""
    session = current(ctx)
    view = session.hub.sandboxes.get(sandbox_id)
    text = "" if view.state.is_final else session.hub.sandboxes.log(sandbox_id).decode(errors="replace")
    if not text:
        text = "".join(session.hub.runs.follow_log(view.run_id, follow=False))
    session.show({"sandbox_id": sandbox_id, "log": text}, lambda: session.write(text))
