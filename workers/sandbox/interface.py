"""The sandbox as the rest of the worker sees it: specifications, results and Protocols.

Backends are `bwrap`, `podman` (only boxes on images, through an engine's daemon) and `process` (no isolation, explicit
opt-in); see `workers.sandbox.backend`.
"""

import signal
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from .errors import BoxGone

MIB = 1024 * 1024
HOME = "/box"
SOCKETS = "/run/hub"
TRUSTED = f"{SOCKETS}/trusted.pem"
WGETRC = f"{SOCKETS}/wgetrc"  # wget reads its certificate authorities only from a file
APT_CONFIG = f"{SOCKETS}/apt.conf"
# Below the ephemeral port range, and not a common server port: 8000 is the default of uvicorn and Python's http.server.
GATEWAY_PORT = 31980
PROXY_PORT = 31981
KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)

Network = Literal["none", "gateway", "allow-list"]
OnOutput = Callable[[Literal["stdout", "stderr"], bytes], None]


@dataclass(frozen=True)
class Limits:
    """The limits of one box.

    `cpus=None` means one CPU if the host can enforce it; a number that the host cannot enforce raises an error. `disk`
    and `files` are one budget for everything that can be written in the box: /box, /tmp, /dev/shm and layers over
    binds. It is held in memory, so it counts towards `memory` too. `lifetime_seconds` ends the box itself.
    """

    memory_bytes: int = 1024 * MIB
    pids: int = 128
    disk_bytes: int = 1024 * MIB
    files: int = 100_000
    open_files: int = 1024
    cpus: float | None = None
    output_bytes: int = MIB
    exec_seconds: float = 30.0
    lifetime_seconds: float = 3600.0


@dataclass(frozen=True)
class Bind:
    """A host directory or file shown in the box at `target`, read-only or under a private writable layer.

    What is written into the layer counts towards the box's disk and is lost with the box. A host that cannot make
    layers (see Facts.downgrades) shows the directory read-only.
    """

    source: Path
    target: str
    layer: bool = False


@dataclass(frozen=True)
class Destination:
    """One address that the allow-list grants, exactly as the box requests it: no wildcard, no range."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> "Destination":
        """Parse "host:port"; the default port is 443. Raises ValueError."""
        host, separator, port = text.rpartition(":")
        return cls(host, int(port)) if separator else cls(text, 443)


@dataclass(frozen=True)
class Outside:
    """The worker's own answers to requests that the allow-list does not grant.

    The worker listens on two sockets, with TLS and without, in place of every other server. `trusted` holds the
    certificate authorities, as PEM, that the box's programs trust.
    """

    https: Path
    http: Path
    trusted: bytes


@dataclass(frozen=True)
class BoxSpec:
    """The specification of a box.

    `root` is an unpacked image, shown as / beneath a private writable layer; commands run in it as root. Without it,
    the box has the host's own programs, read-only. All files of an image belong to the worker's user, and its standard
    folders are no links (workers.images). With `keeps_changes`, Box.changes gives what was written over the image.

    `sockets` is a host directory of listening unix sockets, shown read-only at /run/hub. Each box needs its own: it is
    handed over to the box's user (mode 0700) so that no other user of the host reaches the sockets.

    `network` is "none" (no IP path), "gateway" (127.0.0.1:31980 in the box leads to /run/hub/gateway.sock, on which the
    caller must listen before the box is made) or "allow-list" (the same, and HTTP(S)_PROXY leads to the destinations in
    `allow` only). With `outside`, both of the latter have a proxy, and it answers through `outside` whatever is not
    granted.
    """

    binds: tuple[Bind, ...] = ()
    root: Path | None = None
    keeps_changes: bool = False
    sockets: Path | None = None
    network: Network = "none"
    allow: Collection[Destination] = ()  # a removal takes effect with the next connection
    outside: Outside | None = None
    limits: Limits = field(default_factory=Limits)
    env: Mapping[str, str] = field(default_factory=dict)
    hostname: str = "sandbox"

    @property
    def has_proxy(self) -> bool:
        """Whether the box's programs are given a proxy."""
        return self.network == "allow-list" or (self.network == "gateway" and self.outside is not None)


@dataclass(frozen=True)
class ExecResult:
    """The result of a command. If a signal ended it, exit_code is 128 plus the signal's number (137 for SIGKILL)."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False
    timed_out: bool = False
    oom_killed: bool = False

    @property
    def killed_from_outside(self) -> bool:
        """Whether a signal ended the command that neither a limit nor a crash explains.

        Operators send such signals, and hosts that run out of memory.
        """
        return self.exit_code in KILLED and not (self.timed_out or self.oom_killed)


@dataclass(frozen=True)
class Stats:
    """What a box uses now; a field is None if this host cannot measure it."""

    memory_bytes: int | None
    peak_memory_bytes: int | None
    pids: int | None
    cpu_seconds: float | None
    oom_kills: int  # by its own memory limit
    host_kills: int = 0  # because the host, or a group that the box is in, ran out of memory


@dataclass(frozen=True)
class Facts:
    """What a backend offers on this host, as text for people. `downgrades` describes what it does not enforce."""

    backend: str
    isolated: bool
    identity: str
    limits: str
    downgrades: tuple[str, ...] = ()
    limits_cpu: bool = True
    on_host: bool = True  # whether it can make boxes with the host's own programs
    on_images: bool = True


class Job(Protocol):
    """A command that was started in a box."""

    async def wait(self, timeout: float | None = None) -> ExecResult:
        """Wait for the result. After `timeout` seconds the command is killed, and the result has timed_out set."""
        ...

    async def kill(self) -> None:
        """Kill the command and its descendants with SIGKILL."""
        ...

    async def signal(self, number: int) -> None:
        """Send a signal to the command and its descendants."""
        ...

    def hold_output(self, held: bool) -> None:
        """Pause or resume output.

        While held, on_output is not called; the command's output fills a pipe, and then the command blocks.
        """
        ...


class Box(Protocol):
    """A living box. All paths are paths in the box; /box (the home directory) and /tmp are writable."""

    id: str
    gateway_url: str
    proxy_url: str  # useless if the specification gives the box no proxy

    def path(self, box_path: str) -> str:
        """Return the path at which programs in the box find a path of the specification.

        They differ only in the process backend.
        """
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
    ) -> ExecResult:
        """Run a command to its end. Its background processes live on.

        timeout=None means limits.exec_seconds; cwd=None means /box, or / on an image.
        """
        ...

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
    ) -> Job:
        """Start a command without a time limit.

        on_output gets all output; the result keeps the first output_limit bytes. If stdin is an int, it is a file
        descriptor that the command reads; with `terminal` it is the command's end of a terminal, used for its output
        too. The caller closes its copy.
        """
        ...

    async def connect(self, port: int) -> socket.socket:
        """Connect to a port on the box's loopback and return a non-blocking stream. Raises ConnectionRefusedError."""
        ...

    async def listen(self, port: int) -> socket.socket:
        """A socket that listens on a port of the box's loopback, not blocking; 0: any free port. Raises OSError."""
        ...

    async def put(self, path: str, content: bytes | Path, *, mode: int = 0o644) -> None:
        """Write one file and create its parent directories; a Path is streamed.

        Links are not followed, except in a box on an image, where the box's programs follow them too.
        """
        ...

    async def get(self, path: str, limit: int) -> bytes:
        """Read one regular file that has one hard link and is reached through no symbolic link.

        Raises TooLarge above `limit` bytes.
        """
        ...

    async def window(self, path: str, offset: int, length: int) -> tuple[bytes, int]:
        """Return at most `length` bytes of a file from `offset` (negative: from the end), and the file's size."""
        ...

    async def stats(self) -> Stats: ...

    def changes(self) -> int:
        """Return a descriptor of the directory with what was written over the image, in overlayfs's format.

        It works after `kill` too, until the context ends. The content comes from the box and is hostile. Raises
        LookupError unless the specification has keeps_changes.
        """
        ...

    async def ended(self) -> BoxGone:
        """Wait for the box's end and return why it ended, such as BoxOutOfMemory, or BoxKilled for a signal from
        outside."""
        ...

    async def kill(self) -> None:
        """End everything in the box. Later calls raise BoxGone."""
        ...


class Sandbox(Protocol):
    """A backend: a way to make boxes."""

    facts: Facts

    def create(self, spec: BoxSpec) -> AbstractAsyncContextManager[Box]:
        """Make a box that ends with the context. It also dies with the thread that made it."""
        ...

    def sweep(self) -> list[str]:
        """Remove what dead owners left (processes, cgroups, directories) and return the ids of their boxes."""
        ...
