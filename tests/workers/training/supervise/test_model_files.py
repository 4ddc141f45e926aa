"""Repositories that are fetched through the hub's cache: whole, once, and marked as used."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from envhub.protocol.training.runs import PolicyTarget

from workers.training.supervise import model_files
from workers.training.supervise.model_files import from_hugging_face

FILES = {name: f"{name} ".encode() * 1000 for name in ("config.json", "one.safetensors", "two.safetensors")}
TARGET = PolicyTarget(reference="acme/tiny", repository="acme/tiny", revision="a" * 40)


@dataclass
class Cache:
    """The hub's Hugging Face cache, a slow one."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    breaks: int = 0  # so often the connection ends in the middle of a file
    ranges: bool = True

    @property
    def run(self) -> Any:
        """The job's."""
        return SimpleNamespace(absolute=lambda url: url, authorization=dict)

    async def index(self, request: web.Request) -> web.Response:
        return web.json_response({"siblings": [{"rfilename": name} for name in FILES]})

    async def file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        content, begin = FILES[name], request.http_range.start or 0
        self.asked.append(name)
        status = 206 if begin and self.ranges else 200
        content = content[begin:] if status == 206 else content
        response = web.StreamResponse(status=status, headers={"Content-Length": str(len(content))})
        await response.prepare(request)
        for start in range(0, len(content), 2000):
            await response.write(content[start : start + 2000])
            await asyncio.sleep(0.01)
            if self.breaks and start > 4000:
                self.breaks -= 1
                assert request.transport is not None
                request.transport.close()
                return response
        return response

    async def fetch(self, models: Path) -> Path:
        """As a train run does."""
        return await from_hugging_face(self, self.url, TARGET, models)  # type: ignore[arg-type]


@pytest.fixture
async def cache() -> AsyncIterator[Cache]:
    cache, app = Cache(), web.Application()
    app.router.add_get("/api/models/acme/tiny/revision/{revision}", cache.index)
    app.router.add_get("/acme/tiny/resolve/{revision}/{name}", cache.file)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cache.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield cache
    await runner.cleanup()


async def test_two_runs_that_begin_at_once_fetch_one_whole_model(cache: Cache, tmp_path: Path) -> None:
    async def later() -> Path:
        await asyncio.sleep(0.1)  # the first has some of its files by then
        return await cache.fetch(tmp_path)

    first, second = await asyncio.gather(cache.fetch(tmp_path), later())
    assert first == second
    assert {path.name: path.read_bytes() for path in first.iterdir()} == FILES
    assert sorted(cache.asked) == sorted(FILES)


async def test_a_model_that_is_taken_up_again_counts_as_used(cache: Cache, tmp_path: Path) -> None:
    directory = await cache.fetch(tmp_path)
    os.utime(directory, (0, 0))
    await cache.fetch(tmp_path)
    assert directory.stat().st_mtime > 1e9


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_file_whose_connection_breaks_goes_on(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: bool
) -> None:
    monkeypatch.setattr(model_files, "PAUSE_S", 0.01)
    cache.breaks, cache.ranges = 2, ranges
    directory = await cache.fetch(tmp_path)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == FILES
    assert len(cache.asked) == len(FILES) + 2
