"""Published ports: `docker run -p 8080:80` listens on 8080 of the client's own loopback and leads into the sandbox."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from envhub.protocol.base import JsonObject

from workers.broker.home import Home
from workers.broker.interface import Held
from workers.broker.refusals import Refusal
from workers.sandbox import SandboxError
from workers.sandbox.proxy import pump

MOST_PORTS, LAST_PORT = 32, 65_535
MOST_CONNECTIONS = 128
PORT = re.compile(r"([0-9]{1,5})(/tcp)?")


@dataclass(frozen=True)
class Wanted:
    """A port of the container and where the client wants it; 0: any free port."""

    inside: int
    outside: int


class Ports:
    """The published ports of one container, from its start to its removal."""

    def __init__(self, wanted: Sequence[Wanted], home: Home) -> None:
        self._wanted = wanted
        self._home = home
        self._open: dict[Wanted, tuple[int, asyncio.Server]] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def publish(self, held: Held) -> None:
        """Listen on all of them. Raises Refusal, SandboxError."""
        for wanted in self._wanted:
            if wanted in self._open:
                continue
            try:
                listener = await self._home.listen(wanted.outside)
            except OSError as error:
                raise Refusal(500, f"port {wanted.outside} is already allocated: {error}") from error
            port = listener.getsockname()[1]
            server = await asyncio.start_server(partial(self._accepted, held, wanted.inside), sock=listener)
            self._open[wanted] = (port, server)

    def _accepted(self, held: Held, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(_pass_on(held, port, reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def close(self) -> None:
        """Stop listening and end what is connected."""
        for _, server in self._open.values():
            server.close()
        for task in self._connections:
            task.cancel()
        self._open.clear()

    def told(self) -> JsonObject:
        """As `docker inspect` has them: the port in the container, and where it is published."""
        found: dict[str, list[dict[str, str]]] = {}
        for wanted, (port, _) in self._open.items():
            found.setdefault(f"{wanted.inside}/tcp", []).append({"HostIp": "127.0.0.1", "HostPort": str(port)})
        return dict(found)

    def listed(self) -> list[JsonObject]:
        """As `docker ps` has them."""
        return [
            {"IP": "127.0.0.1", "PrivatePort": wanted.inside, "PublicPort": port, "Type": "tcp"}
            for wanted, (port, _) in self._open.items()
        ]


async def _pass_on(held: Held, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        far_reader, far_writer = await asyncio.open_connection(sock=await held.connect(port))
        try:
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        finally:
            far_writer.close()
    except (OSError, SandboxError):  # nothing listens there yet: clients that wait for a server try again
        writer.transport.abort()
    finally:
        writer.close()


def ports_of(bindings: Mapping[str, object], exposed: Mapping[str, object]) -> list[Wanted]:
    """Read `PortBindings` of a request, and `ExposedPorts` if all of them are to be published. Raises Refusal."""
    found = [Wanted(_number(name), 0) for name in exposed if name not in bindings]
    for name, places in bindings.items():
        for place in places if isinstance(places, list) and places else [{}]:
            wanted = str(place.get("HostPort") or "0") if isinstance(place, dict) else "0"
            found.append(Wanted(_number(name), _number(wanted, least=0)))
    if len(found) > MOST_PORTS:
        raise Refusal(400, f"a container publishes at most {MOST_PORTS} ports")
    return found


def _number(text: str, least: int = 1) -> int:
    match = PORT.fullmatch(text)
    if match is None or not least <= int(match[1]) <= LAST_PORT:
        raise Refusal(400, f"invalid port: {text[:50]!r}; one TCP port such as 8080, no range and no UDP")
    return int(match[1])
