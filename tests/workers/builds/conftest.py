"""A package index, a hub and the parts of a build, over real HTTP, with real uv and real boxes."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.workers.package_index import PackageIndex
from workers.builds.index.catalog import Catalog
from workers.builds.index.tokens import FileAddresses
from workers.index.client import IndexClient, connect
from workers.venvs import interpreters


@pytest.fixture
async def index() -> AsyncIterator[PackageIndex]:
    """The operator's index."""
    made = PackageIndex()
    async with made.serve():
        yield made


@pytest.fixture
async def owner_index() -> AsyncIterator[PackageIndex]:
    """The owner's index, which wants a password."""
    made = PackageIndex(password="owner-secret")
    async with made.serve():
        yield made


@pytest.fixture
async def kept_index() -> AsyncIterator[PackageIndex]:
    """The hub's index of the wheels of earlier locks."""
    made = PackageIndex(password="kept-secret")
    async with made.serve():
        yield made


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with connect() as client:
        yield client


@pytest.fixture
def free_port() -> int:
    """Where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def data() -> Iterator[Path]:
    """Short, because sockets of boxes lie below it."""
    with tempfile.TemporaryDirectory(prefix="bt-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def catalog(
    index: PackageIndex, owner_index: PackageIndex, kept_index: PackageIndex, http: httpx.AsyncClient, data: Path
) -> Callable[..., Catalog]:
    """Makes the catalog of one build; `claimed` are the owner's names."""

    def make(claimed: frozenset[str] = frozenset()) -> Catalog:
        operator = IndexClient(http, [index.url])
        owner = IndexClient(http, [owner_index.url.replace("http://", "http://run:owner-secret@")])
        kept = IndexClient(http, [kept_index.url.replace("http://", "http://run:kept-secret@")])
        return Catalog(operator, owner, claimed, interpreters.present()[0], FileAddresses(data / "key"), kept)

    return make
