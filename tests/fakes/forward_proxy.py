"""A network's HTTP proxy: the only way to the names that it knows. It remembers what it was asked."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from tests.fakes.tcp_thread import TcpThread, pump


@dataclass(frozen=True)
class Asked:
    """The first line of a request to the proxy, and what the caller gave to be let in."""

    line: str
    authorization: str | None


class ForwardProxy(TcpThread):
    """Speaks CONNECT and forwards absolute addresses. `hosts`: "host:port" that it knows, and where they really are."""

    def __init__(self, port: int, hosts: dict[str, tuple[str, int]]) -> None:
        super().__init__(port, "proxy")
        self.hosts = hosts
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        """For HTTPS_PROXY."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request; a forwarded one ends the connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        line, *fields = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        named = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        self.asked.append(Asked(line, named.get("proxy-authorization")))
        method, where, _ = line.split(" ")
        parts = re.fullmatch(r"http://([^/]+)(/.*)", where)
        place = where if method == "CONNECT" else parts[1] if parts else ""
        target = self.hosts.get(place if ":" in place else f"{place}:80")
        if target is None:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(*target)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            kept = [one for one in fields if not one.lower().startswith(("proxy-", "connection:"))]
            path = parts[2] if parts else "/"
            far_writer.write("\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]).encode())
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
