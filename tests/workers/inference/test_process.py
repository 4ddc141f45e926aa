"""What an engine's process is said to have died of."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from workers.inference.process import EngineDied, EngineProcess, free_port
from workers.runs.children import Children


async def death_of(program: str, folder: Path) -> EngineDied:
    (folder / "children").mkdir()
    command = [sys.executable, "-c", program]
    process = await EngineProcess.start(
        command, free_port(), children=Children(folder / "children"), extra={}, home=folder
    )
    try:
        with pytest.raises(EngineDied) as caught:
            await process.wait_ready(60)
    finally:
        await process.stop()
    return caught.value


async def test_the_message_begins_with_the_cause_and_ends_with_the_last_lines(tmp_path: Path) -> None:
    died = await death_of("print('loading'); raise MemoryError('all is used')", tmp_path)
    first, *rest = str(died).splitlines()
    assert first == "the engine ended (1): MemoryError: all is used"
    assert rest[:2] == ["Its last lines:", "loading"]
    assert "too little memory" in died.hint


async def test_a_line_without_an_end_does_not_stop_the_reading(tmp_path: Path) -> None:
    died = await death_of("print('x' * 300_000); raise ValueError('the cause')", tmp_path)
    assert "ValueError: the cause" in str(died)


async def test_a_killed_process_is_said_to_lack_memory(tmp_path: Path) -> None:
    died = await death_of("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert str(died).startswith("the engine ended (-9). ")
    assert "too little memory" in died.hint


STARTS_AN_ENGINE = """
import asyncio, sys
from pathlib import Path
from workers.inference.process import EngineProcess
from workers.runs.children import Children

async def main(folder):
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    await EngineProcess.start(command, 1, children=Children(folder), extra={}, home=folder)
    await asyncio.sleep(600)

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_an_engine_ends_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", STARTS_AN_ENGINE, str(tmp_path))
    async with asyncio.timeout(30):
        while not (records := list(tmp_path.glob("*.json"))):
            await asyncio.sleep(0.05)
        command = Path(f"/proc/{records[0].stem}/cmdline")
        while b"time.sleep" not in command.read_bytes() or b"tied.py" in command.read_bytes():
            await asyncio.sleep(0.05)
        os.kill(worker.pid, signal.SIGKILL)
        await worker.wait()
        while command.exists() and command.read_bytes():
            await asyncio.sleep(0.05)
