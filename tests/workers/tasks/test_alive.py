"""A probe tells a worker that lives from one that hangs or is gone, and leaves no word in its log."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from workers.runs.children import Children
from workers.tasks.alive import is_alive
from workers.tasks.places import Places


async def no_gpus(_: object) -> tuple[()]:
    return ()


async def test_a_worker_that_answers_is_alive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    places = Places({"eval": 1}, no_gpus, lambda _: None, Children(tmp_path / "children"), lambda _: None)
    with caplog.at_level(logging.DEBUG):
        async with places.serve(tmp_path / "host.sock"):
            assert await asyncio.to_thread(is_alive, tmp_path)
    assert "child" not in caplog.text


def test_one_that_does_not_answer_is_not(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(tmp_path / "host.sock"))
        hung.listen()
        assert not is_alive(tmp_path, seconds=0.1)


def test_one_that_is_gone_ends_the_command_with_1(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workers.tasks.alive"]
    assert subprocess.run(command, env={"WORKER_DATA": str(tmp_path)}, check=False).returncode == 1
