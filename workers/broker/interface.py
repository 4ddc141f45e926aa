"""The broker as its clients see it: requests for sandboxes (`Wish`) and the sandboxes themselves (`Held`).

broker.py implements these types; the protocols (prime/, docker/, a worker's sandbox API) translate them for their
clients.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

from workers.images.interface import BASE
from workers.sandbox import ExecResult, SandboxError, Stats

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
ROLLOUT_HEADER = "X-Envhub-Rollout"  # set by the runner: the rollout that a request of the box belongs to


class State(StrEnum):
    """The state of a sandbox. The last four are final."""

    PENDING = "pending"  # waits for a free slot or for its image
    RUNNING = "running"
    STOPPED = "stopped"  # ended by its client or with its rollout
    TIMED_OUT = "timed_out"  # its lifetime or idle time ran out
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"  # it could not be created, or the host ended it

    @property
    def final(self) -> bool:
        return self not in (State.PENDING, State.RUNNING)


class InputUnread(SandboxError):
    """A program did not read its input for long; `taken` bytes of it were passed on."""

    def __init__(self, taken: int) -> None:
        super().__init__("the program does not read its input", "wait for it, or end it")
        self.taken = taken


class NotThere(SandboxError):
    """The caller has no sandbox of this id, or it has ended. `state` is its last state, None if the id is unknown."""

    code = "sandbox_not_found"

    def __init__(self, message: str, hint: str = "", state: State | None = None) -> None:
        super().__init__(message, hint)
        self.state = state

    def __reduce__(self) -> tuple[type[NotThere], tuple[str, str, State | None]]:
        return (type(self), (self.message, self.hint, self.state))


class TooMany(SandboxError):
    """The limit on living sandboxes is reached; the hint names the setting that raises it."""

    code = "too_many_sandboxes"


class NeverFits(SandboxError):
    """A sandbox asks for more than its rollout, its run or its host may ever have; the hint says what to do."""

    code = "sandbox_too_large"


@dataclass(frozen=True)
class Wish:
    """A client's request for a sandbox. The broker's limits cap every number; None means the broker's default."""

    image: str = BASE
    name: str = ""
    labels: tuple[str, ...] = ()
    start_command: tuple[str, ...] = ()  # started in the background once the sandbox runs; its output is the log
    cpus: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    lifetime_s: float | None = None
    idle_s: float | None = None  # end the sandbox after this many seconds without a command
    env: Mapping[str, str] = field(default_factory=dict)
    # None: the hosts that the run allows. Entries are "name" or "name:port"; () means no network.
    allow_hosts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Command:
    """The record of one command that ran in a sandbox; it is kept with the rollout."""

    argv: tuple[str, ...]
    cwd: str
    began: datetime
    seconds: float
    exit_code: int
    output: str  # head and tail of both streams
    truncated: bool = False
    timed_out: bool = False
    unfinished: bool = False  # it runs now, or its sandbox or its caller ended before it


class Process(Protocol):
    """A command that was started in a sandbox."""

    @property
    def pid(self) -> int:
        """Our own number for the process, unique within its sandbox; not the kernel's pid."""
        ...

    async def wait(self, timeout: float | None = None) -> ExecResult:
        """Wait for the process to end. After `timeout` seconds it is killed and the result has `timed_out` set."""
        ...

    async def write(self, data: bytes, patience_s: float = ...) -> None:
        """Write to the standard input if the process was started with one. Raises InputUnread if that takes longer."""
        ...

    async def close_input(self) -> None: ...

    async def signal(self, number: int) -> None: ...

    async def resize(self, rows: int, columns: int) -> None:
        """Resize the terminal if the process was started with one."""
        ...

    def hold_output(self, held: bool) -> None:
        """Pause or resume output for a slow reader.

        While held, on_output is not called, and the process blocks when it writes more.
        """
        ...


class Held(Protocol):
    """A sandbox that the broker holds for a client.

    Methods that need a running sandbox wait until it is ready; they raise NotThere if it has ended or never starts.
    """

    @property
    def id(self) -> str: ...

    @property
    def wish(self) -> Wish: ...

    @property
    def state(self) -> State: ...

    @property
    def reason(self) -> str:
        """Why the sandbox ended, as a message for users."""
        ...

    @property
    def by_host(self) -> bool:
        """Whether the host ended it, not its client, its limits or its own processes."""
        ...

    @property
    def waits_for(self) -> str:
        """What a pending sandbox waits for, such as "its image"; "" once it runs."""
        ...

    @property
    def exit_code(self) -> int | None:
        """The exit code of the start command, or None while it runs."""
        ...

    @property
    def created(self) -> datetime: ...

    @property
    def started(self) -> datetime | None: ...

    @property
    def ended(self) -> datetime | None: ...

    @property
    def cpus(self) -> float: ...

    @property
    def memory_mb(self) -> int: ...

    @property
    def disk_mb(self) -> int: ...

    @property
    def lifetime_s(self) -> float: ...

    @property
    def commands(self) -> Sequence[Command]: ...

    @property
    def default_command(self) -> tuple[str, ...]:
        """The command that a container engine would start from the image; () while the image is not known."""
        ...

    async def ready(self) -> None:
        """Wait until the sandbox runs. Raises NotThere with the reason if it never will."""
        ...

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
        """Run a command to its end. `cwd=None` is the image's working directory.

        The broker's own commands, which nobody in the run asked for, are not `recorded`.
        """
        ...

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
    ) -> Process:
        """Start a command, optionally with an open standard input or a terminal of (rows, columns). The broker's own
        commands are not `recorded`: `commands` holds the client's."""
        ...

    def process(self, pid: int) -> Process | None:
        """Return a started process that has not ended, or None."""
        ...

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a file and create its parent directories. Raises FileRefused."""
        ...

    async def get(self, path: str, limit: int) -> bytes:
        """Read a file of at most `limit` bytes. Raises FileRefused, TooLarge."""
        ...

    async def window(self, path: str, offset: int, length: int) -> tuple[bytes, int]:
        """Return up to `length` bytes from `offset` (negative: from the end) and the file's size.

        Raises FileRefused.
        """
        ...

    def log(self) -> bytes:
        """Return the output of the start command, only its end if there is much of it."""
        ...

    async def restrict(self, allow_hosts: Collection[str]) -> None:
        """Replace the hosts that the sandbox may reach; the caller has checked that the run allows them.

        Open connections stay open.
        """
        ...

    async def connect(self, port: int) -> socket.socket:
        """Return a non-blocking socket connected to a port on which something in the sandbox listens.

        Raises ConnectionRefusedError.
        """
        ...

    async def stats(self) -> Stats: ...

    async def end(self, state: State = State.STOPPED, reason: str = "") -> None:
        """End the sandbox and everything in it. Safe to call twice."""
        ...


class Session(Protocol):
    """The sandboxes of one client, which is a run's box or a user."""

    async def create(self, wish: Wish, *, rollout: str = "") -> Held:
        """Request a sandbox and return at once; it becomes ready later.

        `rollout` is the key of the rollout with which the sandbox ends; with "" it ends with the session. Raises
        TooMany, NeverFits, NotThere (its rollout has ended).
        """
        ...

    def find(self, sandbox_id: str) -> Held | None:
        """Return a sandbox of this session by its id; also one that has ended."""
        ...

    def all(self) -> Sequence[Held]:
        """Return the session's sandboxes, oldest first."""
        ...
