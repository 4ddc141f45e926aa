"""What the worker holds for one client at once."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.fakes.sandboxes import FakeSession
from tests.serving import listening
from tests.workers.broker.prime.service import Client
from workers.broker.interface import Wish
from workers.broker.memory import Memory
from workers.broker.prime import PREFIX, commands, gateway_routes
from workers.broker.prime.live import LiveProcess
from workers.broker.prime.messages import StartRequest


async def test_compressed_bodies_and_downloads_wait_for_room(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100_000))
    session, memory, app = FakeSession(), Memory(), web.Application()
    app.add_subapp(PREFIX, gateway_routes(session, memory))
    held, free = await session.create(Wish()), memory.free
    packed = gzip.compress(json.dumps({"command": "true", "x": "y" * 1000}).encode())
    async with listening(app) as address, aiohttp.ClientSession() as http:
        client = Client(address, session, http)
        assert memory.take(free)
        download = f"{address}/prime/gateway/box/{held.id}/download"
        running = asyncio.ensure_future(
            client.post(held, "exec", data=packed, headers={"Content-Encoding": "gzip"}),
        )
        loading = asyncio.ensure_future(http.get(download, params={"path": str(tmp_path / "file")}))
        await asyncio.sleep(0.2)
        assert (running.done(), loading.done()) == (False, False)
        memory.give_back(free)
        assert ((await running)[0], (await loading).status) == (200, 200)
        assert len(await (await loading).read()) == 100_000


async def test_a_command_that_writes_too_much_keeps_its_beginning(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "OUTPUT_LIMIT", 100)
    held = await client.create()
    _, told = await client.post(held, "exec", json={"command": "printf %01000d 0"})
    assert len(told["stdout"]) == 100
    assert "was written" in told["stderr"]


async def test_a_command_ends_with_a_client_that_goes(client: Client) -> None:
    held = await client.create()
    waiting = asyncio.create_task(client.post(held, "exec", json={"command": "exec sleep 60"}))
    while not held.processes:
        await asyncio.sleep(0.005)
    waiting.cancel()
    async with asyncio.timeout(5):
        assert (await held.processes[1].wait()).exit_code == 137


def test_single_bytes_of_output_are_held_together() -> None:
    live = LiveProcess(StartRequest(argv=("yes",)), Memory())
    for _ in range(20_000):
        live._feed("stdout", b"y")
    assert len(live._waiting) == 5
    assert b"y" * 4096 in live._written()[0]
