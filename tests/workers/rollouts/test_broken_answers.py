"""An answer of the hub that breaks off ends the box's connection: nothing else is written into it."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web

from tests.serving import listening
from tests.workers.broken_upstream import ANSWERS, broken_upstream, raw_answer
from workers.rollouts.interceptor.data import DataSource
from workers.rollouts.outside.files import NotHere


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(
    "path", ["/hf/data", "/files?url=https://example.org/a", "/files?url=https://huggingface.co/a"]
)
async def test_what_breaks_off_is_not_followed_by_another_answer(answer: str, path: str) -> None:
    async with broken_upstream(answer) as hub, aiohttp.ClientSession() as http:
        data = DataSource(f"{hub}/hf", {}, http)

        async def file(request: web.Request) -> web.StreamResponse:
            try:
                return await data.files().answer(request, request.query["url"])
            except NotHere as error:
                return web.Response(status=404, text=str(error))

        app = web.Application()
        app.router.add_get("/hf/{path}", data.forward)
        app.router.add_get("/files", file)
        async with listening(app) as url:
            found = await raw_answer(url + path)
    assert found.count(b"HTTP/1.1") == 1
    assert b"begun" in found
