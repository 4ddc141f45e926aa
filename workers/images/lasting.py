"""Fetch images for longer than the sandbox that asked first: its rollout may be over before its image is here.

Without this, an image that takes longer than a rollout may last would be fetched again from the start by each rollout.
"""

from __future__ import annotations

import asyncio
from collections import Counter
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
    """Implements workers.images.interface.Images. Made by `lasting`.

    An environment may ask for any number of images and end their sandboxes at once. So only some are fetched at a time,
    and of those that nobody waits for any more only the newest go on.
    """

    def __init__(self, images: Images, at_once: int = 6, unawaited: int = 3) -> None:
        self._images = images
        self._places = asyncio.Semaphore(at_once)
        self._unawaited = unawaited
        self._fetching: dict[str, asyncio.Task[None]] = {}  # the oldest first
        self._tasks: set[asyncio.Task[None]] = set()  # these, and given up ones that have not ended yet
        self._waiting: Counter[str] = Counter()
        self._here: set[str] = set()  # fetched once; if the store has removed one, its next user fetches it

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        if name not in self._here:
            await self._fetched(name)
        async with self._images.using(name) as image:
            yield image

    async def stop(self) -> None:
        """Give up what is still being fetched."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _fetched(self, name: str) -> None:
        self._waiting[name] += 1
        try:
            await asyncio.shield(self._fetching.get(name) or self._begin(name))
        finally:
            self._waiting[name] -= 1
            self._waiting += Counter()  # without those for which nobody waits
            unawaited = [one for one in self._fetching if not self._waiting[one]]
            for one in unawaited[: -self._unawaited]:
                self._fetching.pop(one).cancel()

    def _begin(self, name: str) -> asyncio.Task[None]:
        task = self._fetching[name] = asyncio.create_task(self._fetch(name))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # perhaps nobody waits any more

    async def _fetch(self, name: str) -> None:
        try:
            async with self._places, self._images.using(name):
                self._here.add(name)
        finally:
            if self._fetching.get(name) is asyncio.current_task():
                del self._fetching[name]
