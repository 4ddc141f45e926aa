"""Fetch images for longer than the sandbox that asked first: its rollout may be over before its image is here.

Without this, an image that takes longer than a rollout may last would be fetched again from the start by each rollout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from workers.images.interface import Image, Images


@asynccontextmanager
async def lasting(images: Images) -> AsyncIterator[Images]:
    """Yield images that go on being fetched while nobody waits for them, until the block ends."""
    fetched = LastingImages(images)
    try:
        yield fetched
    finally:
        await fetched.stop()


class LastingImages:
    """Implements workers.images.interface.Images. Made by `lasting`."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._here: set[str] = set()  # fetched once; if the store has removed one, its next user fetches it

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        if name not in self._here:
            await asyncio.shield(self._fetching.get(name) or self._begin(name))
        async with self._images.using(name) as image:
            yield image

    async def stop(self) -> None:
        """Give up what is still being fetched."""
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, name: str) -> asyncio.Task[None]:
        task = self._fetching[name] = asyncio.create_task(self._fetch(name))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody waits any more
        return task

    async def _fetch(self, name: str) -> None:
        try:
            async with self._images.using(name):
                self._here.add(name)
        finally:
            del self._fetching[name]
