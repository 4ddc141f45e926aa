"""What breaks off inside a sandbox, or at the hub, ends the caller's connection: nothing else is written into it."""

from __future__ import annotations

import socket
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from tests.serving import listening
from tests.workers.broken_upstream import ANSWERS, broken_upstream, raw_answer
from workers.broker.interface import Held
from workers.broker.memory import Memory
from workers.sandbox import FileRefused
from workers.sandboxes.api import SandboxApi
from workers.sandboxes.models import Models, _Calls
from workers.sandboxes.ports import Ports

SECRET = "Authorization: Bearer secret\r\n"


class Broken:
    """A sandbox with a server at `url`, and a file that is removed while it is read."""

    def __init__(self, url: str = "") -> None:
        self._port = int(url.rpartition(":")[2] or 0)

    async def connect(self, port: int) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port))
        made.setblocking(False)
        return made

    async def window(self, path: str, offset: int, length: int) -> tuple[bytes, int]:
        if offset:
            raise FileRefused("it is gone")
        return b"begun", 1000


def api(held: Held, ports: Ports) -> web.Application:
    nothing = cast(Any, None)
    return SandboxApi(held, nothing, ports, nothing, file_bytes=1000, memory=Memory()).application("secret")


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_port(answer: str) -> None:
    async with broken_upstream(answer) as inside:
        held = cast(Held, Broken(inside))
        async with listening(api(held, ports := Ports(held))) as url:
            found = await raw_answer(f"{url}/ports/80/", SECRET)
        await ports.close()
    assert (found.count(b"HTTP/1.1"), b"begun" in found) == (1, True)


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_model(answer: str) -> None:
    async with broken_upstream(answer) as hub, aiohttp.ClientSession() as http:
        app = web.Application()
        app.router.add_post("/call", _Calls(Models(["m"], hub, "t", http)).call)
        async with listening(app) as url:
            found = await raw_answer(f"{url}/call", body='{"model": "m"}')
    assert (found.count(b"HTTP/1.1"), b"begun" in found) == (1, True)


async def test_a_file() -> None:
    held = cast(Held, Broken())
    async with listening(api(held, Ports(held))) as url:
        found = await raw_answer(f"{url}/files?path=/a", SECRET)
    assert (found.count(b"HTTP/1.1"), b"begun" in found) == (1, True)
