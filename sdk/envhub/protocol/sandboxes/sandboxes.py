"""Wire types of users' sandboxes: requests, commands, and the worker's reports to the hub."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from envhub.protocol.base import Count, Request, Response, Seconds, Size, Slug
from envhub.protocol.runs import Failure

BASE_IMAGE = "hub/base"
MOST_ARGUMENTS = 1000
MOST_COMMANDS = 1000  # commands listed for one sandbox
Label = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$")]
Value = Annotated[str, StringConstraints(max_length=32_768, pattern=r"^[^\x00]*$")]
Argument = Annotated[str, StringConstraints(max_length=128 * 1024, pattern=r"^[^\x00]*$")]
ModelName = Annotated[str, StringConstraints(min_length=3, max_length=200, pattern=r"^[\w.-]+/[\w./-]+$")]
InsidePath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^/[^\x00]*$")]
Port = Annotated[int, Field(ge=1, le=65535)]


class SandboxState(StrEnum):
    """pending -> running -> stopped | timed_out | out_of_memory | failed."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"  # its lifetime or its idle time is over
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether the sandbox has ended."""
        return self not in {SandboxState.PENDING, SandboxState.RUNNING}


class SandboxRequest(Request):
    """Create a sandbox for `owner` (default: the caller). Numbers that are None use the hub's defaults."""

    owner: Slug | None = None
    name: str = Field(default="", max_length=100)
    image: str = Field(default=BASE_IMAGE, min_length=1, max_length=500)
    cpus: float | None = Field(default=None, gt=0, le=1024)
    memory_mb: int | None = Field(default=None, ge=16, le=16 * 1024**2)
    disk_mb: int | None = Field(default=None, ge=16, le=64 * 1024**2)
    timeout_s: Seconds | None = None  # lifetime, counted from the start
    idle_s: Seconds | None = None  # ends after this time without a command; None: never
    env: dict[Variable, Value] = Field(default_factory=dict, max_length=200)
    # runs in the background and writes the log
    start_command: tuple[Argument, ...] = Field(default=(), max_length=MOST_ARGUMENTS)
    allow_hosts: tuple[str, ...] = Field(default=(), max_length=50)  # host:port; empty means no network
    models: tuple[ModelName, ...] = Field(default=(), max_length=20)  # models that it may call at $OPENAI_BASE_URL
    # sandboxes that programs outside may have beside it, through prime-sandboxes
    siblings: int = Field(default=0, ge=0, le=1000)
    labels: tuple[Label, ...] = Field(default=(), max_length=20)


class SandboxView(Response):
    """A sandbox. `waiting_for` says why it is pending, `reason` why it has ended."""

    id: str
    owner: Slug
    name: str = ""
    image: str
    state: SandboxState
    waiting_for: str | None = None
    reason: str = ""
    failure: Failure | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    timeout_s: float
    idle_s: float | None = None
    variables: tuple[str, ...] = ()  # names of the environment variables; values are never shown
    start_command: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    siblings: int = 0  # sandboxes that programs outside may have beside it at a time
    labels: tuple[str, ...] = ()
    use: str = ""  # current memory and CPU use, as text
    run_id: str
    worker: str = ""
    created_by: str
    created_at: datetime
    started_at: datetime | None = None
    ends_at: datetime | None = None
    ended_at: datetime | None = None


class CommandRequest(Request):
    """Either `command`, which a shell runs, or `argv`. `cwd` defaults to the image's."""

    command: Argument | None = Field(default=None, min_length=1)
    argv: tuple[Argument, ...] | None = Field(default=None, min_length=1, max_length=MOST_ARGUMENTS)
    cwd: InsidePath | None = None
    env: dict[Variable, Value] = Field(default_factory=dict, max_length=200)

    @model_validator(mode="after")
    def _names_one_command(self) -> CommandRequest:
        if (self.command is None) == (self.argv is None):
            raise ValueError("give either `command` or `argv`")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that is started."""
        return self.argv or ("/bin/sh", "-c", self.command or "")


class ExecRequest(CommandRequest):
    """Run a command to its end. It is killed after `timeout_s`."""

    timeout_s: float = Field(default=30.0, gt=0, le=3600)
    stdin: str = Field(default="", max_length=1024**2)


class ExecResult(Response):
    """The result of a command.

    `exit_code` is 128 + the signal's number if a signal ended it. Bytes that are not UTF-8 are replaced.
    """

    stdout: str
    stderr: str
    exit_code: int
    seconds: float
    truncated: bool = False
    timed_out: bool = False


class TerminalSize(Request):
    """The size of a terminal, in characters."""

    rows: int = Field(ge=1, le=1000)
    columns: int = Field(ge=1, le=1000)


class ProcessRequest(CommandRequest):
    """Start a command, and read its output later.

    With `terminal`, it runs in a terminal and always has standard input.
    """

    stdin: bool = False
    terminal: TerminalSize | None = None


class ProcessView(Response):
    """A started process. `exit_code` is None while it runs, and if its sandbox ended first."""

    pid: int
    argv: tuple[str, ...]
    started_at: datetime
    seconds: float
    ended: bool = False
    exit_code: int | None = None
    timed_out: bool = False
    output_bytes: int = 0  # bytes written


class ProcessList(Response):
    """The processes of a sandbox, oldest first. Those that ended long ago are omitted."""

    items: tuple[ProcessView, ...]


class OutputEvent(Response):
    """One line of a process's output stream. `seq` increases by one; `after=SEQ` resumes a broken stream.

    output: `data` (base64) of `stream`. lost: the reader was too slow for `count` events. ping: nothing happened. end:
    the last line; `count` is the number of bytes written.
    """

    seq: int = 0
    kind: Literal["output", "lost", "ping", "end"]
    stream: Literal["stdout", "stderr"] = "stdout"
    data: str = ""
    count: int = 0
    exit_code: int | None = None
    timed_out: bool = False
    reason: str = ""  # why it ended, if its sandbox ended


class SignalRequest(Request):
    """A signal, by number: 2 is SIGINT, 15 SIGTERM, 9 SIGKILL."""

    number: int = Field(ge=1, le=64)


class Done(Response):
    """Confirms that the call succeeded."""

    done: bool = True


class InputTaken(Response):
    """How many bytes a program's standard input has taken; the rest must be sent again. None: all."""

    bytes: int | None = None


class SandboxStats(Response):
    """What a sandbox uses now. None where its worker cannot measure it."""

    memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    pids: int | None = None
    cpu_seconds: float | None = None
    cpus: float | None = None  # in use, over the last seconds


class CommandView(Response):
    """An executed command."""

    argv: tuple[str, ...]
    cwd: str
    began: datetime
    seconds: float
    exit_code: int
    output: str  # head and tail of both streams
    truncated: bool = False
    timed_out: bool = False


class CommandList(Response):
    """The last commands of a sandbox, oldest first."""

    items: tuple[CommandView, ...]


class PortRequest(Request):
    """Create an address for a port on which something in the sandbox listens."""

    port: Port
    seconds: float = Field(default=3600.0, ge=1, le=7 * 86_400)
    name: str = Field(default="", max_length=200)


class PortView(Response):
    """An open port."""

    id: str
    port: int
    name: str = ""
    created_at: datetime
    expires_at: datetime


class PortList(Response):
    """The open ports of a sandbox, oldest first."""

    items: tuple[PortView, ...]


class PortAddress(Response):
    """The address of a port.

    Anybody who knows `url` reaches the port until `expires_at`, or until it is closed by its `id`.
    """

    url: str
    port: int
    expires_at: datetime
    id: str = ""
    name: str = ""


class SiblingsAddress(Response):
    """An address for creating sandboxes beside this one with the prime-sandboxes client.

    Anybody who knows `url` can use it until `expires_at`. `variables` are what that client reads.
    """

    url: str
    variables: dict[str, str]
    expires_at: datetime


class SiblingLimits(Response):
    """Limits for siblings of a sandbox. `origin` is what comes before their service's own path in its addresses."""

    at_once: int
    cpus: float
    memory_mb: int
    disk_mb: int
    origin: str


class SandboxPayload(Response):
    """`Claim.payload` of a sandbox run."""

    sandbox_id: str
    name: str = ""
    image: str
    cpus: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    timeout_s: float
    idle_s: float | None = None
    env: dict[str, str] = {}
    start_command: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    file_bytes: Size = 100 * 1024**2  # limit for one upload
    models: tuple[str, ...] = ()
    model_token: str = ""  # an API token that may call models; never enters the sandbox
    siblings: SiblingLimits | None = None


class SandboxReport(Request):
    """A worker's report on the sandbox of its run: its address, and how it has ended."""

    state: SandboxState
    reason: str = Field(default="", max_length=2000)
    base_url: str = Field(default="", max_length=500)  # "http://host:port" of a running sandbox
    secret: str = Field(default="", max_length=200)
    memory_mb: Count | None = None  # actual limit
    cpus: float | None = Field(default=None, ge=0, le=1024)
    disk_mb: Count | None = None
