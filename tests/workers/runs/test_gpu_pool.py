"""A worker's GPUs: the tightest that fit are taken, nobody shares one, and a silent driver lends none."""

from __future__ import annotations

from pathlib import Path

import pytest
from envhub.protocol.placing.gpus import GpuNeed

from tests.fakes.nvidia_smi import install
from workers.runs.gpu_pool import GpuPool

THREE = """0, GPU-a, A, 80000, 79000, Disabled, 12
1, GPU-b, B, 24000, 23000, Disabled, 12
2, GPU-c, A, 80000, 40000, Disabled, 12
"""


@pytest.fixture
async def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuPool:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install(tmp_path / "bin", monkeypatch, THREE)
    pool = GpuPool("all")
    assert await pool.look()
    return pool


def taken(pool: GpuPool, count: int, memory_mb: int = 0) -> list[int] | None:
    gpus = pool.take(GpuNeed(count=count, memory_mb=memory_mb))
    return None if gpus is None else [gpu.index for gpu in gpus]


async def test_the_tightest_are_taken_and_never_twice(pool: GpuPool) -> None:
    assert taken(pool, 1, 20_000) == [1]
    assert taken(pool, 1, 20_000) == [2]
    assert taken(pool, 1, 60_000) == [0]
    assert taken(pool, 1) is None
    assert (len(pool.free), [gpu.memory_mb for gpu in pool.busy]) == (0, [80_000, 24_000, 80_000])


async def test_what_does_not_fit_takes_nothing(pool: GpuPool) -> None:
    assert taken(pool, 2, 60_000) is None
    assert len(pool.free) == 3
    assert taken(pool, 0) == []


async def test_given_back_they_are_free_with_the_memory_of_before(
    pool: GpuPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = pool.take(GpuNeed(count=1, memory_mb=60_000))
    assert held is not None
    install(tmp_path / "bin", monkeypatch, THREE.replace("79000", "100"))  # its run fills it
    assert not await pool.look()
    pool.give_back(held)
    assert taken(pool, 1, 60_000) == [0]


async def test_other_programs_memory_is_not_free(
    pool: GpuPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", monkeypatch, THREE.replace("79000", "100"))
    assert not await pool.look()  # the same GPUs
    assert taken(pool, 1, 60_000) is None


async def test_a_silent_driver_lends_none_but_they_stay_known(
    pool: GpuPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", monkeypatch, THREE, then="exit 1")
    assert not await pool.look()
    assert (pool.free, len(pool.known), pool.use) == ((), 3, ())
    install(tmp_path / "bin", monkeypatch, THREE)
    assert not await pool.look()
    assert len(pool.free) == 3


async def test_a_driver_that_is_silent_once_leaves_a_held_gpu_its_memory_of_before(
    pool: GpuPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = pool.take(GpuNeed(count=1, memory_mb=60_000))
    assert held is not None
    full = THREE.replace("79000", "100")  # its run fills it
    for then in ("exit 1", ""):
        install(tmp_path / "bin", monkeypatch, full, then=then)
        assert not await pool.look()
    pool.give_back(held)
    assert taken(pool, 1, 60_000) == [0]


async def test_what_is_given_back_to_a_silent_driver_is_not_lent(
    pool: GpuPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = pool.take(GpuNeed(count=1))
    assert held is not None
    install(tmp_path / "bin", monkeypatch, THREE, then="exit 1")
    await pool.look()
    pool.give_back(held)
    assert not pool.free


async def test_a_lost_gpu_is_noticed(pool: GpuPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "bin", monkeypatch, THREE.splitlines()[0])
    assert await pool.look()
    assert [gpu.index for gpu in pool.known] == [0]
