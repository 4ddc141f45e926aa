"""Tunnels of a client outside: what sandboxes reach while its program holds one, and what they are told when not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from envhub.cli.sandboxes.tunnels.carrier import Carrier, TunnelGone

from tests.fakes.sandboxes import fake_session
from workers.broker.prime import PREFIX, OutsideTunnels, outside_tunnels, prime_routes
from workers.broker.relay import Streams

TUNNEL = f"{PREFIX}/api/v1/tunnel"


class Service:
    """The service with a client outside, whose program is carried by this process."""

    def __init__(self, address: str, tunnels: OutsideTunnels, http: aiohttp.ClientSession) -> None:
        self.address, self.tunnels, self.http = address, tunnels, http
        self.said: list[str] = []

    async def open(self, port: int) -> dict[str, Any]:
        async with self.http.post(self.address + TUNNEL, json={"local_port": port}) as answer:
            told: dict[str, Any] = await answer.json()
            return told

    async def status(self, told: dict[str, Any]) -> str:
        async with self.http.get(f"{self.address}{TUNNEL}/{told['tunnel_id']}") as answer:
            return str((await answer.json())["status"])

    @contextlib.asynccontextmanager
    async def carried(self, told: dict[str, Any]) -> AsyncIterator[asyncio.Task[None]]:
        carrier = Carrier(told["frp_token"], "127.0.0.1", told["local_port"], lambda _, text: self.said.append(text))
        task = asyncio.create_task(carrier.carry())
        try:
            while "start proxy success" not in self.said and not task.done():
                await asyncio.sleep(0.01)
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def reach(self, told: dict[str, Any]) -> Streams:
        """As the gateway of a sandbox does."""
        return await self.tunnels.reach(f"{told['tunnel_id']}/v1/models")


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with fake_session() as session, aiohttp.ClientSession() as http:
        root, tunnels = web.Application(), OutsideTunnels()
        root.add_subapp(PREFIX, prime_routes(session, tunnels=tunnels))
        runner = web.AppRunner(root, handler_cancellation=True, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Service(f"http://127.0.0.1:{runner.addresses[0][1]}", tunnels, http)
        await runner.cleanup()


@contextlib.asynccontextmanager
async def listening(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> AsyncIterator[int]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def reverse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All that comes, once the other side has said that this is all."""
    writer.write((await reader.read())[::-1])
    await writer.drain()
    writer.close()


async def test_what_a_sandbox_sends_arrives_whole_and_so_does_the_answer(service: Service) -> None:
    async with listening(reverse) as port:
        told = await service.open(port)
        assert told["url"] == f"http://127.0.0.1:31980/t/{told['tunnel_id']}"
        assert await service.status(told) == "pending"
        async with service.carried(told):
            assert await service.status(told) == "connected"
            sent = bytes(range(256)) * 20_000
            for reader, writer in [await service.reach(told) for _ in range(3)]:
                writer.write(sent)
                writer.write_eof()
                assert await reader.read() == sent[::-1]
                writer.close()
        while await service.status(told) != "disconnected":
            await asyncio.sleep(0.01)


async def test_a_client_on_whose_port_nothing_listens_is_told_at_once(service: Service) -> None:
    async with listening(reverse) as port:
        pass
    told = await service.open(port)
    async with service.carried(told):
        with pytest.raises(ConnectionRefusedError, match=f"nothing listens on port {port}"):
            await service.reach(told)


async def test_a_program_that_is_not_there_is_waited_for(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening(reverse) as port:
        told = await service.open(port)
        reaching = asyncio.create_task(service.reach(told))
        await asyncio.sleep(0.05)
        async with service.carried(told):
            _, writer = await reaching
            writer.close()
        monkeypatch.setattr(outside_tunnels, "WAIT_S", 0.05)
        while await service.status(told) != "disconnected":
            await asyncio.sleep(0.01)
        with pytest.raises(LookupError, match="does not answer"):
            await service.reach(told)


async def test_a_closed_tunnel_ends_its_connections_and_its_program(service: Service) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with listening(silent) as port:
        told = await service.open(port)
        async with service.carried(told) as program:
            reader, writer = await service.reach(told)
            async with service.http.delete(f"{service.address}{TUNNEL}/{told['tunnel_id']}") as answer:
                assert answer.status == 200
            assert await reader.read() == b""
            writer.close()
            with pytest.raises(TunnelGone):
                await program
        with pytest.raises(LookupError, match="closed"):
            await service.reach(told)


async def test_a_program_comes_back_after_its_connection_was_lost(service: Service) -> None:
    async with listening(reverse) as port:
        told = await service.open(port)
        async with service.carried(told):
            held = service.tunnels._programs[told["tunnel_id"]]._control
            assert held is not None
            await held.close()
            while service.said.count("start proxy success") < 2:
                await asyncio.sleep(0.01)
            reader, writer = await service.reach(told)
            writer.write(b"again")
            writer.write_eof()
            assert await reader.read() == b"niaga"
            writer.close()


@pytest.mark.parametrize("wrong", ["secret", "tunnel", "connection"])
async def test_nobody_else_attaches(service: Service, wrong: str) -> None:
    told = await service.open(1)
    address = {
        "secret": told["frp_token"] + "x",
        "tunnel": told["frp_token"].replace(told["tunnel_id"], "0" * 16),
        "connection": f"{told['frp_token']}/unasked",
    }[wrong]
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await service.http.ws_connect(address)
    assert caught.value.status == 404


async def test_the_connections_of_a_client_are_limited(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_tunnels, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr(service.tunnels, "_connections", asyncio.Semaphore(1))
    async with listening(reverse) as port:
        told = await service.open(port)
        async with service.carried(told):
            _, writer = await service.reach(told)
            with pytest.raises(LookupError, match="1 connections of tunnels are open"):
                await service.reach(told)
            writer.close()
