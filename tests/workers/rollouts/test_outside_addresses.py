"""A box may name any host in its requests to the outside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from workers.rollouts.outside.files import NotHere
from workers.rollouts.outside.server import OutsideServer


class NoFiles:
    """A hub without files."""

    async def answer(self, request: web.Request, asked: str) -> web.StreamResponse:
        raise NotHere("the hub has no such file")


@pytest.mark.parametrize("host", ["x:99999", "[x", f"x:{'9' * 5000}"])
async def test_a_malformed_host_has_no_answer(tmp_path: Path, host: str) -> None:
    said: list[str] = []
    async with OutsideServer(NoFiles(), said.append).serve(tmp_path) as outside:
        reader, writer = await asyncio.open_unix_connection(outside.http)
        writer.write(f"GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert await reader.read() == b""
        writer.close()
    assert len(said) == 1
    assert "its address is malformed" in said[0]
