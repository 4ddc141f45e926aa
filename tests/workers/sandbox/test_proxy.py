"""The allow-list: exact pairs, no way inside."""

import asyncio
import contextlib
import os
import socket
import struct
from pathlib import Path

import pytest

from tests.fakes.forward_proxy import ForwardProxy
from workers.sandbox import BoxSpec, Destination, Sandbox
from workers.sandbox.proxy import MAX_CONNECTIONS, MAX_WAITING, Refused, parse_request, serve_proxy


async def ask(path: Path, request: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(4096), 5)
    finally:
        writer.close()


async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"far")
    await writer.drain()
    writer.close()


async def test_a_listed_address_is_reached(root: Path, free_port: int) -> None:
    async with (
        await asyncio.start_server(greet, "127.0.0.1", free_port),
        serve_proxy(root / "p", [Destination("127.0.0.1", free_port)]),
    ):
        answer = await ask(root / "p", f"CONNECT 127.0.0.1:{free_port} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200")


async def test_a_tunnel_that_its_target_resets_ends_for_the_box_too(root: Path, free_port: int) -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with (
        await asyncio.start_server(reset, "127.0.0.1", free_port),
        serve_proxy(root / "p", [Destination("127.0.0.1", free_port)]),
    ):
        reader, writer = await asyncio.open_unix_connection(root / "p")
        writer.write(f"CONNECT 127.0.0.1:{free_port} HTTP/1.1\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("target", ["127.0.0.1:22", "example.com:80", "sub.example.com:443", "example.com.:444"])
async def test_what_is_not_on_the_list_is_refused(root: Path, target: str) -> None:
    async with serve_proxy(root / "p", [Destination("example.com", 443)]):
        assert (await ask(root / "p", f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())).startswith(b"HTTP/1.1 403")


async def test_a_listed_name_that_leads_inside_is_refused(root: Path, free_port: int) -> None:
    async with (
        await asyncio.start_server(greet, "127.0.0.1", free_port),
        serve_proxy(root / "p", [Destination("localhost", free_port)]),
    ):
        answer = await ask(root / "p", f"CONNECT localhost:{free_port} HTTP/1.1\r\n\r\n".encode())
    assert b"inside address" in answer


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"GET ftp://x/ HTTP/1.1",
        b"GET http://a@x/ HTTP/1.1",
        b"CONNECT x HTTP/1.1",
        b"CONNECT x:y HTTP/1.1",
        b"CONNECT x:" + b"9" * 5000 + b" HTTP/1.1",
        b"\xff",
    ],
)
def test_what_names_no_host_is_refused(line: bytes) -> None:
    with pytest.raises(Refused):
        parse_request(line + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("address", "host", "port", "first"),
    [
        ("http://data.lan/a?b=http://c/", "data.lan", 80, b"GET /a?b=http://c/ HTTP/1.1"),
        ("http://data.lan:8080", "data.lan", 8080, b"GET / HTTP/1.1"),
        ("http://[::1]/x", "::1", 80, b"GET /x HTTP/1.1"),
    ],
)
def test_a_plain_request_is_forwarded_in_the_form_that_servers_expect(
    address: str, host: str, port: int, first: bytes
) -> None:
    head = f"GET {address} HTTP/1.1\r\nHost: other.lan\r\nProxy-Connection: keep-alive\r\n\r\n"
    request = parse_request(head.encode())
    assert request.target == Destination(host, port)
    host_line = b"Host: " + address.split("/")[2].encode()  # not the name of another site on the same server
    assert request.head.split(b"\r\n") == [first, host_line, b"Connection: close", b"", b""]


async def test_a_plain_request_to_a_host_that_is_not_listed_is_refused(root: Path) -> None:
    async with serve_proxy(root / "p", [Destination("example.com", 443)]):
        assert (await ask(root / "p", b"GET http://example.com/ HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403")


async def test_an_endless_head_is_cut(root: Path) -> None:
    async with serve_proxy(root / "p", []):
        assert await ask(root / "p", b"CONNECT " + b"x" * 60_000) == b""


@pytest.mark.sandbox
async def test_connections_without_end_cost_a_bounded_number_of_descriptors(root: Path) -> None:
    async with serve_proxy(root / "p", []):
        before = len(os.listdir("/proc/self/fd"))
        held = [await asyncio.open_unix_connection(root / "p") for _ in range(400)]
        await asyncio.sleep(0.05)
        ours = len(os.listdir("/proc/self/fd")) - before - len(held)
        for _, writer in held:
            writer.close()
    assert ours <= MAX_CONNECTIONS + MAX_WAITING


async def test_a_box_reaches_its_list_through_the_environment(sandbox: Sandbox, free_port: int) -> None:
    code = (
        "import os, socket, sys; from urllib.parse import urlsplit as u; p = u(os.environ['HTTPS_PROXY']);"
        "s = socket.create_connection((p.hostname, p.port));"
        "s.sendall(f'CONNECT {sys.argv[1]} HTTP/1.1\\r\\n\\r\\n'.encode());"
        "print(s.makefile().read())"
    )
    spec = BoxSpec(network="allow-list", allow=(Destination("127.0.0.1", free_port),))
    async with await asyncio.start_server(greet, "127.0.0.1", free_port), sandbox.create(spec) as box:
        good = await box.exec(["python3", "-c", code, f"127.0.0.1:{free_port}"])
        bad = await box.exec(["python3", "-c", code, "127.0.0.1:1"])
    assert b"200 Connection established" in good.stdout
    assert b"far" in good.stdout
    assert b"403" in bad.stdout


@pytest.mark.sandbox
async def test_a_box_reads_a_plain_http_page_of_its_list(sandbox: Sandbox, free_port: int) -> None:
    """By urllib, which forwards plain requests instead of tunnelling; on an address that is not the box's own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with contextlib.suppress(OSError):
            probe.connect(("192.0.2.1", 9))
        address = probe.getsockname()[0]
    if address in {"0.0.0.0", "127.0.0.1"}:
        pytest.skip("this machine has no address but loopback")
    seen: list[bytes] = []

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nword")
        await writer.drain()
        writer.close()

    code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"
    spec = BoxSpec(network="allow-list", allow=(Destination(address, free_port),))
    async with await asyncio.start_server(page, address, free_port), sandbox.create(spec) as box:
        good = await box.exec(["python3", "-c", code, f"http://{address}:{free_port}/a?b=c"])
        bad = await box.exec(["python3", "-c", code, f"http://{address}:1/"])
    assert good.stdout == b"word\n", good.stderr
    assert seen[0].startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert b"is not on this run's list" in bad.stderr


async def say_where(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + line)
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("asked", "answer", "told"),
    [
        (
            b"CONNECT far.invalid:443 HTTP/1.1\r\n\r\n",
            b"200 Connection established",
            "CONNECT far.invalid:443 HTTP/1.1",
        ),
        (
            b"GET http://far.invalid/a?b HTTP/1.1\r\n\r\n",
            b"GET /a?b HTTP/1.1",
            "GET http://far.invalid:80/a?b HTTP/1.1",
        ),
        (b"CONNECT shut.invalid:443 HTTP/1.1\r\n\r\n", b"502 the operator's proxy says 403", ""),
        (b"CONNECT other.invalid:443 HTTP/1.1\r\n\r\n", b"is not on this run's list", ""),
    ],
)
async def test_a_listed_name_is_asked_of_the_operators_proxy(
    root: Path, free_port: int, monkeypatch: pytest.MonkeyPatch, asked: bytes, answer: bytes, told: str
) -> None:
    far = await asyncio.start_server(say_where, "127.0.0.1", 0)
    known = ("127.0.0.1", far.sockets[0].getsockname()[1])
    listed = [Destination("far.invalid", 80), Destination("far.invalid", 443), Destination("shut.invalid", 443)]
    hosts = {"far.invalid:80": known, "far.invalid:443": known}
    with ForwardProxy(free_port, hosts) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url.replace("//", "//box:word@"))
        async with far, serve_proxy(root / "p", listed):
            assert answer in await ask(root / "p", asked)
    if told:
        (one,) = proxy.asked
        assert (one.line, one.authorization) == (told, "Basic Ym94OndvcmQ=")


async def test_a_listed_address_inside_is_reached_past_the_operators_proxy(
    root: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    async with (
        await asyncio.start_server(greet, "127.0.0.1", free_port),
        serve_proxy(root / "p", [Destination("127.0.0.1", free_port)]),
    ):
        answer = await ask(root / "p", f"CONNECT 127.0.0.1:{free_port} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200")
