"""A box's only way out: an HTTP proxy on a unix socket that lets exact host:port pairs through.

It supports CONNECT (for https and anything else) and forwards plain http:// requests, one per connection. It refuses
what is not on the list, or leads it to the worker's own answers (interface.Outside).

A name is resolved once and the connection goes to that address. Addresses that are not public are refused unless the
list names the address itself. Public ones are reached through the operator's proxy if this process's environment names
one. The box has no IP path, so it has no way around a refusal.
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

WGET_PATIENCE = "tries = 2\nwaitretry = 1\n"  # by default wget retries 20 times over minutes
APT_AS_ROOT = 'APT::Sandbox::User "root";\n'  # a sandbox has no other user that apt could switch to
MAX_HEAD = 16 * 1024
LONGEST_PORT = 5  # digits
# headers that the proxy sets itself, or that end at it
HOPS = {b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"upgrade"}
HEAD_SECONDS = 10.0
CONNECT_SECONDS = 15.0
NAME_SECONDS = 2.0  # a network with a proxy may have no DNS for outside names and be slow to say so
MOST_SAID = 100
MAX_CONNECTIONS, MAX_WAITING = 64, 128
CHUNK = 1 << 16
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """A refusal; its text is the status line that the box gets."""


class Request(NamedTuple):
    """The target of a request, and the head to send to it; a CONNECT sends none."""

    target: Destination
    head: bytes = b""


def parse_request(head: bytes) -> Request:
    """Parse the head of `CONNECT host:port HTTP/1.1`, or of `GET http://host[:port]/path HTTP/1.1` and the like."""
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
    start = f"{method} {slash or '/'}{path} {version}\r\nHost: {place}\r\n"  # RFC 9112, 3.2.2: not the box's own Host
    return Request(target, start.encode() + _without_hops(rest))


def destination(text: str) -> Destination:
    """Parse `host:port` or `[address]:port`."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or len(port) > LONGEST_PORT or not host or "@" in host or "?" in host or "#" in host:
        raise Refused("400 host:port expected")
    return Destination(host.strip("[]").lower().rstrip("."), int(port))


def _without_hops(rest: bytes) -> bytes:
    """Return the headers with `Connection: close`, as the next request on the connection may be for another host."""
    lines = [line for line in rest.split(b"\r\n") if line and line.split(b":")[0].strip().lower() not in HOPS]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def resolve(target: Destination) -> str | None:
    """Return one address of a target, or None if the name does not resolve.

    A name that leads to an address that is not public is refused; a literal address is fine, since the list names it.
    """
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
    """Connect to the target, through the operator's proxy if it is outside, and send the head. Raises Refused."""
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
    """Connect to the target through another proxy. Raises Refused."""
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
    with contextlib.suppress(OSError):  # also after a reset, or the other side would wait for ever
        if writer.can_write_eof():
            writer.write_eof()


class Proxy:
    """Serves the connections of one box."""

    def __init__(self, allow: Collection[Destination], outside: Outside | None = None) -> None:
        self._outside = outside
        self._allow = allow  # may shrink later
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()

    def accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection, up to a limit: even a waiting one holds a descriptor of the worker."""
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
        """Connect to the target if it is granted, else to the worker's own answers, and send the head.

        Raises Refused.
        """
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
    """Serve the box's proxy in its folder of sockets until the context ends, and write there which authorities to
    trust.

    `trusted` is the path of the authorities' file as the box sees it.
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
    """Return the folder of a box's sockets, or None if it has none; start the proxy in it if the box has one.

    It is the folder of the specification, else one below the box's `own` folder.
    """
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
    """Listen on `path` until the context ends."""
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
