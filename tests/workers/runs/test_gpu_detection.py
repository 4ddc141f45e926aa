"""Which GPUs a worker finds, by a fake `nvidia-smi`: good, hanging, failing, talking nonsense, absent."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.fakes.nvidia_smi import TWO_GPUS, install
from workers.runs.gpu_detection import detect_gpus, parse, percents, see_gpus


@pytest.fixture(autouse=True)
def _nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


async def indices(wanted: str = "all") -> list[int]:
    return [gpu.index for gpu in await detect_gpus(wanted)]


async def test_it_asks_for_memory_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = install(tmp_path / "bin", monkeypatch)
    first, second = await detect_gpus("all")
    assert (first.index, first.uuid, first.name) == (0, "GPU-aaaa1111", "NVIDIA H100 80GB HBM3")
    assert (second.memory_mb, second.free_mb) == (81559, 80000)
    query = "--query-gpu=index,uuid,name,memory.total,memory.free,mig.mode.current,utilization.gpu"
    assert asked.read_text() == f"{query} --format=csv,noheader,nounits\n"


@pytest.mark.parametrize(
    ("visible", "wanted", "found"),
    [(None, "all", [0, 1]), ("1", "all", [1]), ("1,0", "all", [0, 1]), ("", "all", []), ("-1", "all", []),
     ("0,-1,1", "all", [0]), ("GPU-bbbb", "all", [1]), ("GPU-", "all", []), ("7", "all", []),
     (None, "none", []), (None, "1", [1]), (None, "GPU-aaaa1111, 1", [0, 1]), (None, "1,5", [1]), ("1", "0", []),
     ("MIG-1234", "all", [])],
)  # fmt: skip
async def test_cuda_and_the_operator_narrow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, wanted: str, found: list[int]
) -> None:
    install(tmp_path / "bin", monkeypatch)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert await indices(wanted) == found


async def test_a_gpu_that_is_not_there_is_named_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path / "bin", monkeypatch)
    assert await indices("0,5") == [0]
    assert "WORKER_GPUS names '5'" in caplog.text


async def test_without_the_tool_there_are_none_and_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await indices() == []
    assert not [record for record in caplog.records if record.name.startswith("workers")]


async def test_a_tool_that_hangs_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path / "bin", monkeypatch, then="exec sleep 1000")
    assert await detect_gpus("all", seconds=0.5) == ()
    assert "has not answered for 0.5 s" in caplog.text


async def test_a_tool_that_fails_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path / "bin", monkeypatch, then="exit 9")
    assert await indices() == []
    assert "failed with status 9" in caplog.text


async def test_a_flood_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "bin", monkeypatch, then="exec yes 0, GPU-a, X, 1, 1, Disabled, 0")
    assert await indices() == []


@pytest.mark.parametrize(
    ("line", "why"),
    [("0, GPU-a, NVIDIA A100-SXM4-80GB, 81920, 81000, Enabled, [N/A]", "MIG"),
     ("0, GPU-a, X, [N/A], [Insufficient Permissions], Disabled, 0", "left out"),
     ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "left out"),
     ("0, GPU-a, X, -5, 3, Disabled, 0", "left out"), ("\x00\ufffd, , , , , ", "left out")],
)  # fmt: skip
def test_what_cannot_be_used_is_left_out_and_said(line: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    found = parse(line + "\n" + TWO_GPUS.splitlines()[1] + "\n\n")
    assert [gpu.index for gpu in found] == [1]
    assert why in caplog.text


def test_the_use_is_read_where_the_driver_says_it() -> None:
    """As `nvidia-smi` writes it: a number, or that the card does not support it."""
    listing = TWO_GPUS + "2, GPU-c, Quadro, the large, 8192, 8000, [N/A], [N/A]\n"
    listing += "3, GPU-d, T, 1, 1, [N/A], [Not Supported]\nnonsense\n4, x, y, z, a, b, 300\n"
    assert percents(listing) == {0: 12, 1: 12, 4: 100}


async def test_memory_in_use_comes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "bin", monkeypatch)
    _, use = await see_gpus("1")
    assert [(one.index, one.percent, one.used_mb) for one in use] == [(1, 12, 1559)]


def test_names_may_hold_commas_and_old_cards_have_no_mig() -> None:
    (gpu,) = parse("3, GPU-c, Quadro, the large, 8192, 8000, [N/A], [N/A]\n")
    assert (gpu.index, gpu.name, gpu.free_mb) == (3, "Quadro, the large", 8000)
