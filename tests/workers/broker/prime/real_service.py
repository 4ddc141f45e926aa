"""The service over the broker's sandboxes, with the routes by which client_program.py begins and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.fakes.sandbox_service import serving
from tests.fakes.sandboxes import LACKING_IMAGE, SLOW_IMAGE
from workers.broker.broker import Broker
from workers.broker.interface import State
from workers.broker.life import Host
from workers.broker.limits import BrokerLimits
from workers.broker.room import Room
from workers.broker.surroundings import nothing
from workers.broker.tickets import Party, Tickets
from workers.images.interface import Image, ImageLacking
from workers.sandbox import backend
from workers.sandbox.doctor.own_image import OnImage, make_image


class SomeImages:
    """Every name is the same image; one takes until it is told to go on, one is lacking."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.begun = asyncio.Event()

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        if name == LACKING_IMAGE:
            raise ImageLacking(name, "no registry has this image", "name another")
        if name == SLOW_IMAGE:
            await self.begun.wait()
        yield Image(name, "sha256:0", self._root)


@asynccontextmanager
async def real_service(root: Path) -> AsyncIterator[str]:
    """Its address without the prefix."""
    image = make_image(root / "image")
    images = SomeImages(image)
    sandbox = OnImage(backend("bwrap", root), image)
    broker = Broker(
        Host(sandbox, images, Tickets(root / "tickets", Room(sandboxes=16), Party("ada", "1")), BrokerLimits(), nothing)
    )
    async with broker.session() as session:

        async def begin(request: web.Request) -> web.Response:
            images.begun.set()
            return web.json_response({})

        async def break_off(request: web.Request) -> web.Response:
            held = session.find(request.query["id"])
            assert held is not None
            await held.end(State(request.query["state"]), "broken off by a test")
            return web.json_response({})

        app = web.Application()
        app.router.add_get("/begin", begin)
        app.router.add_get("/break", break_off)
        async with serving(session, app) as address:
            yield address
