"""The only way out of a box: an HTTP proxy on a unix socket with exact host:port pairs. It speaks CONNECT (https,
anything) and forwards plain http:// requests, one a connection. What is not on the list it refuses, or leads to the
worker's own answers (interface.Outside).

It resolves a name once and connects to that address; an address that is not public is refused unless the list has the
address itself. Public ones are asked of the operator's own proxy where this process's environment names one. The box
has no IP path, so a proxy that says no is the end of it.
"""

import asyncio
import base64
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Collection
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from envhub.proxies import proxy_for

from .interface import APT_CONFIG, TRUSTED, WGETRC, BoxSpec, Destination, Outside

WGET_PATIENCE = "tries = 2\nwaitretry = 1\n"  # of its own it asks 20 times, for minutes, for what has no answer
APT_AS_ROOT = 'APT::Sandbox::User "root";\n'  # nobody can become another user in a sandbox
MAX_HEAD = 16 * 1024
HOPS = {b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"upgrade"}
HEAD_SECONDS = 10.0
CONNECT_SECONDS = 15.0
NAME_SECONDS = 2.0  # networks with a proxy may know no names of the outside, and find that out slowly
MOST_SAID = 100
MAX_CONNECTIONS, MAX_WAITING = 64, 128
CHUNK = 1 << 16
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """Told to the box in the status line."""


class Request(NamedTuple):
    """Where to, and what the target gets to see of the head: nothing of a CONNECT."""

    target: Destination
    head: bytes = b""


def parse_request(head: bytes) -> Request:
    """`CONNECT host:port HTTP/1.1`, or `GET http://host[:port]/path HTTP/1.1` and the like."""
    line, _, rest = head.partition(b"\r\n")
    parts = line.decode("ascii", "replace").split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refused("400 not an HTTP request")
    method, where, version = parts
    if method == "CONNECT":
        return Request(destination(where))
    if not where.lower().startswith("http://"):
        raise Refused("405 only CONNECT and http:// addresses")
    place, slash, path = where[len("http://") :].partition("/")
    has_port = ":" in place.rpartition("]")[2]
    target = destination(place if has_port else f"{place}:80")
    return Request(target, f"{method} {slash or '/'}{path} {version}\r\n".encode() + _without_hops(rest))


def destination(text: str) -> Destination:
    """`host:port` or `[address]:port`."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not host or "@" in host or "?" in host or "#" in host:
        raise Refused("400 host:port expected")
    return Destination(host.strip("[]").lower().rstrip("."), int(port))


def _without_hops(rest: bytes) -> bytes:
    """The other lines of a head. The connection ends with its answer: the next request may be for another host."""
    lines = [line for line in rest.split(b"\r\n") if line and line.split(b":")[0].strip().lower() not in HOPS]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def resolve(target: Destination) -> str | None:
    """One address; None for a name that nobody knows here. A name that leads inside is refused; an address is reached
    only because the list names it."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError:
        return None
    address = str(found[0][4][0])
    if not is_address(target.host) and not is_public(address):
        raise Refused("403 the name leads to an inside address")
    return address


def is_public(address: str) -> bool:
    return ipaddress.ip_address(address.split("%")[0]).is_global


async def reach(request: Request) -> Streams:
    """The target, by the operator's proxy where it is outside; the head is already on its way. Raises Refused."""
    target, url = request.target, f"http{'' if request.head else 's'}://{spelled(request.target)}"
    proxy = proxy_for(url)
    try:
        async with asyncio.timeout(NAME_SECONDS if proxy else None):
            address = await resolve(target)
    except TimeoutError:
        address = None
    if proxy is not None and (address is None or is_public(address)):
        return await ask_proxy(proxy, request)
    if address is None:
        raise Refused("502 the name does not resolve")
    reader, writer = await asyncio.open_connection(address, target.port)
    writer.write(request.head)
    return reader, writer


async def ask_proxy(url: str, request: Request) -> Streams:
    """The target behind another proxy. Raises Refused."""
    parts = urlsplit(url)
    is_https, where = parts.scheme == "https", spelled(request.target)
    port = parts.port or (443 if is_https else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=is_https or None, limit=MAX_HEAD)
    known = b""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        known = b"Proxy-Authorization: Basic %s\r\n" % base64.b64encode(pair.encode())
    if request.head:
        method, _, rest = request.head.partition(b" ")
        line, _, lines = rest.partition(b"\r\n")
        writer.write(b"%s http://%s%s\r\n%s%s" % (method, where.encode(), line, known, lines))
        return reader, writer
    writer.write(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n".encode() + known + b"\r\n")
    try:
        status = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].split(b" ", 1)[-1]
        if not status.startswith(b"2"):
            raise Refused(f"502 the operator's proxy says {status.decode('ascii', 'replace')[:MOST_SAID]}")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise Refused("502 the operator's proxy gives no answer") from error
    except BaseException:
        writer.close()
        raise
    return reader, writer


def spelled(target: Destination) -> str:
    return f"{f'[{target.host}]' if ':' in target.host else target.host}:{target.port}"


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError):  # also after a reset: the other side would wait for ever
        if writer.can_write_eof():
            writer.write_eof()


class Proxy:
    """Serves the connections of one box."""

    def __init__(self, allow: Collection[Destination], outside: Outside | None = None) -> None:
        self._outside = outside
        self._allow = allow  # which may shrink meanwhile
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()

    def accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Each connection has a descriptor of the worker's, also while it waits."""
        if len(self._tasks) >= MAX_CONNECTIONS + MAX_WAITING:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._take_turn(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_turn(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._slots:
                with contextlib.suppress(OSError):
                    await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            request = parse_request(head)
            far_reader, far_writer = await self._connect(request)
        except Refused as refused:
            writer.write(f"HTTP/1.1 {refused}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            return
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        if not request.head:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        finally:
            far_writer.close()

    async def _connect(self, request: Request) -> Streams:
        """To the target that is granted, or to who answers in its place; the head is on its way. Raises Refused."""
        target = request.target
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._grants(target):
                    return await reach(request)
                if self._outside is None:
                    raise Refused(f"403 {target.host}:{target.port} is not on this run's list")
                door = self._outside.http if request.head else self._outside.https
                reader, writer = await asyncio.open_unix_connection(door)
                writer.write(request.head)
                return reader, writer
        except (OSError, TimeoutError) as error:
            raise Refused("502 no connection") from error

    def _grants(self, target: Destination) -> bool:
        asked = (target.host, target.port)
        return any((one.host.lower().rstrip("."), one.port) == asked for one in self._allow)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def open_proxy(folder: Path, spec: BoxSpec, *, trusted: str = TRUSTED) -> AsyncIterator[None]:
    """The box's proxy, and whom its programs trust, in its folder of sockets until the context ends.

    `trusted` is where the box sees the latter.
    """
    if spec.outside is not None:
        settings = f"ca_certificate = {trusted}\n{WGET_PATIENCE}".encode()
        files = ((TRUSTED, spec.outside.trusted), (WGETRC, settings), (APT_CONFIG, APT_AS_ROOT.encode()))
        for name, content in files:
            path = folder / PurePosixPath(name).name
            path.write_bytes(content)
            path.chmod(0o644)
    async with serve_proxy(folder / "proxy.sock", spec.allow, spec.outside):
        yield


async def open_sockets(own: Path, spec: BoxSpec, stack: contextlib.AsyncExitStack) -> Path | None:
    """The folder of a box's sockets, if it has any: that of its specification, else one below its `own` folder; with
    the proxy listening there when it has one."""
    folder = spec.sockets
    if spec.has_proxy:
        if folder is None:
            folder = own / "sockets"
            folder.mkdir()
        await stack.enter_async_context(open_proxy(folder, spec))
    return folder


@contextlib.asynccontextmanager
async def serve_proxy(
    path: Path, allow: Collection[Destination], outside: Outside | None = None
) -> AsyncIterator[None]:
    """Listens on `path` until the context ends."""
    proxy = Proxy(allow, outside)
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(proxy.accepted, path, limit=MAX_HEAD)
    path.chmod(0o666)
    try:
        yield
    finally:
        server.close()
        proxy.stop()
        path.unlink(missing_ok=True)
