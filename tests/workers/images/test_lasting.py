"""Images go on being fetched when those who wait for them give up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from workers.images.interface import Image, ImageLacking
from workers.images.lasting import lasting


class SlowImages:
    """Fetches an image when `arrive` is set; `log` has what began and ended."""

    def __init__(self) -> None:
        self.arrive = asyncio.Event()
        self.log: list[str] = []

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        if "fetched" not in self.log:
            self.log.append("begun")
            try:
                await self.arrive.wait()
            except asyncio.CancelledError:
                self.log.append("given up")
                raise
            if name == "missing":
                raise ImageLacking(name, "it is not there")
            self.log.append("fetched")
        yield Image(name, "sha256:0", Path("/"))


async def given_up(waiting: asyncio.Task[Image]) -> None:
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_one_who_gives_up_leaves_the_fetching_to_the_next() -> None:
    source = SlowImages()
    async with lasting(source) as images:

        async def use() -> Image:
            async with images.using("big") as image:
                return image

        for _ in range(3):
            await given_up(asyncio.create_task(use()))
        last = [asyncio.create_task(use()) for _ in range(2)]
        await asyncio.sleep(0)
        source.arrive.set()
        assert [image.name for image in await asyncio.gather(*last)] == ["big", "big"]
    assert source.log == ["begun", "fetched"]


async def test_its_end_ends_what_nobody_has_waited_for() -> None:
    source = SlowImages()
    async with lasting(source) as images:
        await given_up(asyncio.create_task(images.using("big").__aenter__()))
        assert source.log == ["begun"]
    assert source.log == ["begun", "given up"]


async def test_all_who_wait_hear_that_an_image_cannot_be_had_and_the_next_asks_again() -> None:
    source = SlowImages()
    source.arrive.set()
    async with lasting(source) as images:
        for times in (1, 2):
            waiting = [asyncio.create_task(images.using("missing").__aenter__()) for _ in range(2)]
            found = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(one) for one in found] == [ImageLacking] * 2
            assert source.log == ["begun"] * times


class EndlessImages:
    """Fetches for ever; `fetching` has what it fetches now, in order."""

    def __init__(self) -> None:
        self.fetching: list[str] = []

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        self.fetching.append(name)
        try:
            await asyncio.Event().wait()
            yield Image(name, "sha256:0", Path("/"))
        finally:
            self.fetching.remove(name)


async def test_who_asks_for_many_and_gives_up_keeps_only_the_newest_going() -> None:
    source = EndlessImages()
    async with lasting(source) as images:
        for number in range(20):
            await given_up(asyncio.create_task(images.using(str(number)).__aenter__()))
        await asyncio.sleep(0)
        assert source.fetching == ["17", "18", "19"]
    assert source.fetching == []


async def test_only_some_are_fetched_at_a_time() -> None:
    source = EndlessImages()
    async with lasting(source) as images:
        waiting = [asyncio.create_task(images.using(str(number)).__aenter__()) for number in range(20)]
        await asyncio.sleep(0.01)
        assert source.fetching == [str(number) for number in range(6)]
        await given_up(waiting[0])
        for one in waiting[1:]:
            one.cancel()
        await asyncio.wait(waiting)
