"""A budget of memory that requests share."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from workers.broker.memory import SMALL, Memory, body_size


async def test_what_does_not_fit_waits_for_room() -> None:
    memory, size = Memory(3 * SMALL), 2 * SMALL
    async with memory.hold(size):
        waiting = asyncio.create_task(memory.hold(size).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    assert memory.free == SMALL


async def test_a_body_that_turns_out_smaller_gives_the_rest_back() -> None:
    memory = Memory(9 * SMALL)
    async with memory.hold(8 * SMALL) as room:
        room.shrink(2 * SMALL)
        assert memory.free == 7 * SMALL
        room.shrink(4 * SMALL)
        assert memory.free == 7 * SMALL
    assert memory.free == 9 * SMALL


async def test_what_is_larger_than_the_budget_has_all_of_it() -> None:
    memory = Memory(3 * SMALL)
    async with memory.hold(9 * SMALL):
        assert memory.free == 0
    assert memory.free == 3 * SMALL


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        ({"Content-Length": "70"}, 70),
        ({"Content-Length": "7000"}, 1000),
        ({"Content-Length": "70", "Content-Encoding": "gzip"}, 1000),
        ({}, 1000),
    ],
)
def test_a_body_takes_what_it_says_unless_it_is_compressed(headers: dict[str, str], size: int) -> None:
    assert body_size(make_mocked_request("POST", "/", headers=headers), 1000) == size
