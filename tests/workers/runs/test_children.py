"""What an earlier life of the worker left is ended, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.runs.children import Children, Record, boot_id, read_process

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
WITH_CHILD = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *SLEEP]


def test_a_recorded_session_ends_with_everything_in_it(tmp_path: Path) -> None:
    leader = subprocess.Popen(WITH_CHILD, start_new_session=True)
    Children(tmp_path).record(leader.pid, what="slot", run_id="r")
    deadline = time.monotonic() + 10
    while not (found := children_of(leader.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found
    assert Children(tmp_path).kill_leftovers() == [f"slot r (pid {leader.pid})"]
    leader.wait(5)
    assert all(read_process(pid) is None for pid in found)
    assert list(tmp_path.iterdir()) == []


def test_children_of_a_dead_leader_are_found_by_their_session(tmp_path: Path) -> None:
    leader = subprocess.Popen(WITH_CHILD, start_new_session=True)
    Children(tmp_path).record(leader.pid, what="slot")
    deadline = time.monotonic() + 10
    while not (found := children_of(leader.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    leader.kill()
    leader.wait()
    assert Children(tmp_path).kill_leftovers()
    assert all(read_process(pid) is None for pid in found)


def test_a_child_that_cannot_be_recorded_is_ended(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.touch()  # as good as a full disk: nothing can be written below it
    child = subprocess.Popen(SLEEP, start_new_session=True)
    with pytest.raises(OSError, match="file"):
        Children(folder).record(child.pid, what="slot")
    assert child.wait(5) == -signal.SIGKILL


def test_a_pid_that_somebody_else_has_now_is_left_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    process = read_process(stranger.pid)
    assert process is not None
    for start, boot in ((process.start - 1000, boot_id()), (process.start, "another boot")):
        record = Record(pid=stranger.pid, start=start, boot=boot, what="old")
        (tmp_path / f"{stranger.pid}.json").write_text(record.model_dump_json())
        assert Children(tmp_path).kill_leftovers() == []
    alive = read_process(stranger.pid) is not None
    stranger.kill()
    stranger.wait()
    assert alive


def children_of(pid: int) -> list[int]:
    """Direct children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
