"""A broker over real boxes on the image that needs no download."""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from workers.broker.broker import Broker
from workers.broker.life import Host
from workers.broker.limits import BrokerLimits
from workers.broker.room import Room
from workers.broker.tickets import Party, Tickets
from workers.images.interface import Image, ImageLacking
from workers.sandbox import backend
from workers.sandbox.doctor.own_image import OnImage, make_image

SECRET = "secret"  # of the run, which records replace
MakeBroker = Callable[[BrokerLimits], Broker]


class OneImage:
    """Has "here", and nothing else."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        if name != "here":
            raise ImageLacking(name, f"there is no image {name}", "hub image add")
        yield Image(name, "sha256:0", self.root, env={"OF_THE_IMAGE": "1"}, workdir="/app")


def masked(text: str) -> str:
    return text.replace(SECRET, "***")


@pytest.fixture
def root() -> Iterator[Path]:
    """Short, because unix sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="sb-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def make_broker(root: Path) -> MakeBroker:
    image = make_image(root / "image")
    (image / "app").mkdir()
    sandbox = OnImage(backend("bwrap", root), image)
    tickets = Tickets(root / "tickets", Room(sandboxes=4), Party("ada", "1"))
    return lambda limits: Broker(Host(sandbox, OneImage(image), tickets, limits, masked=masked))


@pytest.fixture
def broker(make_broker: MakeBroker) -> Broker:
    return make_broker(BrokerLimits())
