"""The supervisor keeps its slots, whatever happens when it starts them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.workers.tasks.test_worker_process import until
from workers.runs.children import Children
from workers.runs.gpu_pool import GpuPool
from workers.tasks import slots
from workers.tasks.slots import Slot


async def test_a_disk_that_was_full_when_a_slot_started_costs_no_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "RESTART_S", 0.1)
    folder = tmp_path / "children"
    folder.touch()  # as good as a full disk: nothing can be written below it
    slot = Slot("build", Children(folder), GpuPool("none"), lambda claimed: None)
    alive = asyncio.create_task(slot.keep_alive())
    await asyncio.sleep(0.5)
    assert not slot.idle
    folder.unlink()
    folder.mkdir()
    await until(lambda: slot.idle, 20)
    await slot.stop(5)
    await alive
