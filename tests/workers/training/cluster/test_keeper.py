"""What a host of a run keeps: directories that come in pieces, whole or not at all; and no boxes if it may not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")
from workers.inference.process import spawn
from workers.training.cluster.keeper import Keeper, NoRollouts


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    monkeypatch.setenv("WORKER_DATA", str(tmp_path))
    monkeypatch.setenv("WORKER_RAY_ROLLOUTS", "false")
    return Keeper("r1")


async def test_a_directory_is_there_only_when_it_is_whole(keeper: Keeper, tmp_path: Path) -> None:
    assert await keeper.wants("base")
    await keeper.piece("base", "model.safetensors", 0, b"abc")
    await keeper.piece("base", "model.safetensors", 3, b"def")
    await keeper.piece("base", "deep/config.json", 0, b"{}")
    there = tmp_path / "cluster-runs" / "r1" / "base"
    assert not there.exists()
    assert await keeper.complete("base", 0) == str(there)
    assert (there / "model.safetensors").read_bytes() == b"abcdef"
    assert (there / "deep" / "config.json").read_bytes() == b"{}"
    assert not await keeper.wants("base")


async def test_what_was_cut_off_is_begun_anew(keeper: Keeper) -> None:
    await keeper.wants("base")
    await keeper.piece("base", "old", 0, b"x")
    assert await keeper.wants("base")
    await keeper.piece("base", "new", 0, b"y")
    assert [path.name for path in Path(await keeper.complete("base", 0)).iterdir()] == ["new"]


async def test_the_newest_weights_stay(keeper: Keeper, tmp_path: Path) -> None:
    for version in ("v000001", "v000002", "v000003"):
        await keeper.wants(f"weights/{version}")
        await keeper.complete(f"weights/{version}", 2)
    kept = tmp_path / "cluster-runs" / "r1" / "weights"
    assert sorted(path.name for path in kept.iterdir()) == ["v000002", "v000003"]


async def test_weights_of_an_earlier_attempt_are_not_taken_for_those_of_the_same_name(
    keeper: Keeper, tmp_path: Path
) -> None:
    kept = tmp_path / "cluster-runs" / "r1" / "weights"

    async def bring(version: str, manifest: bytes) -> bool:
        wanted = await keeper.wants(f"weights/{version}", manifest)
        if wanted:
            await keeper.piece(f"weights/{version}", "manifest.json", 0, manifest)
        await keeper.complete(f"weights/{version}", 2)
        return wanted

    for version in ("v000012", "v000013"):
        assert await bring(version, b"earlier")
    assert await bring("v000010", b"now"), "from a checkpoint, before the newest on the host"
    assert (kept / "v000010").is_dir()
    assert not await bring("v000010", b"now")
    assert await bring("v000013", b"now")
    assert {path.name: (path / "manifest.json").read_bytes() for path in kept.iterdir()} == {
        "v000010": b"now",
        "v000013": b"now",
    }


async def test_a_host_without_boxes_says_so(keeper: Keeper) -> None:
    with pytest.raises(NoRollouts, match="WORKER_RAY_ROLLOUTS"):
        await keeper.start_rollouts({}, "127.0.0.1")


async def test_a_line_of_any_length_does_not_end_the_reading(keeper: Keeper) -> None:
    script = "import time; print('x' * 1_000_000, flush=True); time.sleep(0.3); print('after')"
    await keeper._read(await spawn([sys.executable, "-c", script], {}))
    assert keeper._last[-1] == "after"


async def test_nothing_is_left_of_a_run(keeper: Keeper, tmp_path: Path) -> None:
    await keeper.wants("base")
    await keeper.remove()
    assert not list((tmp_path / "cluster-runs").iterdir())


async def test_a_run_that_lasts_for_weeks_keeps_its_files(keeper: Keeper, tmp_path: Path) -> None:
    await keeper.wants("base")
    kept = Path(await keeper.complete("base", 0))
    os.utime(kept.parent, (0, 0))  # nothing was added to the folder since
    other = Keeper("r2")
    assert kept.exists()
    os.close(keeper._use)  # as if its process had ended without a word
    os.utime(kept.parent, (0, 0))
    Keeper("r3")
    assert not kept.exists()
    assert other._root.exists()
