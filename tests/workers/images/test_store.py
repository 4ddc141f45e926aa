"""The store of unpacked images: whole or absent, shared, bounded."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from workers.images.config import ImageConfig
from workers.images.store import MAKING, Store

ONE, TWO = (f"sha256:{letter * 64}" for letter in "12")
SIZE = 200_000


async def fill(root: Path) -> ImageConfig:
    (root / "file").write_bytes(os.urandom(SIZE))
    return ImageConfig(workdir="/w")


async def test_whoever_wants_an_image_at_once_gets_the_one_that_is_made(tmp_path: Path) -> None:
    made: list[Path] = []

    async def make(root: Path) -> ImageConfig:
        made.append(root)
        await asyncio.sleep(0)
        return await fill(root)

    stores = [Store(tmp_path, max_bytes=10**9) for _ in range(4)]
    found = await asyncio.gather(*(store.ensure(ONE, make) for store in stores))
    assert (len(made), {one.root for one in found}) == (1, {tmp_path / ("1" * 64) / "rootfs"})
    assert found[0].kept.config.workdir == "/w"


async def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    async def fail(root: Path) -> ImageConfig:
        await fill(root)
        raise ValueError

    with pytest.raises(ValueError):
        await Store(tmp_path, max_bytes=10**9).ensure(ONE, fail)
    assert [path.name for path in tmp_path.iterdir()] == [".locks"]


async def test_what_a_cancelled_maker_still_writes_is_not_in_the_image(tmp_path: Path) -> None:
    """Its threads cannot be cancelled."""
    roots: list[Path] = []

    async def endless(root: Path) -> ImageConfig:
        roots.append(root)
        await asyncio.sleep(600)
        return ImageConfig()

    store = Store(tmp_path, max_bytes=10**9)
    cancelled = asyncio.create_task(store.ensure(ONE, endless))
    while not roots:
        await asyncio.sleep(0.01)
    cancelled.cancel()
    await asyncio.wait([cancelled])

    async def make(root: Path) -> ImageConfig:
        roots[0].mkdir(parents=True, exist_ok=True)
        (roots[0] / "late").touch()
        return await fill(root)

    found = await store.ensure(ONE, make)
    assert [path.name for path in found.root.iterdir()] == ["file"]


async def test_what_a_killed_maker_left_is_no_image_and_goes(tmp_path: Path) -> None:
    left = tmp_path / f"{MAKING}{'2' * 64}-0" / "rootfs/deep"
    left.mkdir(parents=True)
    store = Store(tmp_path, max_bytes=10**9)
    assert await store.take(TWO) is None
    (await store.ensure(ONE, fill)).release()
    assert not left.exists()


async def test_the_least_recently_used_goes_unless_a_run_has_it(tmp_path: Path) -> None:
    store = Store(tmp_path, max_bytes=SIZE)
    first = await store.ensure(ONE, fill)
    second = await store.ensure(TWO, fill)
    assert (first.root.exists(), second.root.exists()) == (True, True)
    first.release()
    assert (store.trim(), first.root.exists(), second.root.exists()) == (1, False, True)
    assert (await store.ensure(ONE, fill)).root.exists()


async def test_the_base_image_stays(tmp_path: Path) -> None:
    store = Store(tmp_path, max_bytes=1)
    store.point("base", ONE)
    (await store.ensure(ONE, fill)).release()
    (await store.ensure(TWO, fill)).release()
    store.trim()
    assert [(tmp_path / (letter * 64)).exists() for letter in "12"] == [True, False]


@pytest.mark.parametrize("digest", ["sha256:../../etc", "", "sha512:" + "1" * 128, "1" * 64])
async def test_a_digest_is_no_path(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="not a digest"):
        await Store(tmp_path, max_bytes=1).take(digest)
