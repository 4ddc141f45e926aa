"""hub.web.supervisor on real processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from hub.web.supervisor import Child, Supervisor


def appends(path: Path, then: str) -> Child:
    """A child that writes its pid into `path`, then runs `then`."""
    return starts(f"import os,time; open({str(path)!r},'a').write(f'{{os.getpid()}}\\n'); {then}")


def starts(code: str) -> Child:
    return Child("test", [sys.executable, "-S", "-c", code], os.environ)


def wait_for_lines(path: Path, number: int) -> list[str]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) >= number:
            return lines
        time.sleep(0.05)
    pytest.fail(f"{path} never had {number} lines")


def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    supervisor = Supervisor([appends(tmp_path / "pids", "raise SystemExit(3)")])
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    pids = wait_for_lines(tmp_path / "pids", 2)
    supervisor.stop()
    thread.join(20)
    assert len(set(pids)) == len(pids)


def test_stopping_ends_the_children(tmp_path: Path) -> None:
    supervisor = Supervisor([appends(tmp_path / "pids", "time.sleep(60)")])
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    (pid,) = wait_for_lines(tmp_path / "pids", 1)
    supervisor.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert not Path(f"/proc/{pid}").exists()


def test_the_last_child_ends_before_the_others_are_told(tmp_path: Path) -> None:
    says = "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), open({!r}, 'a').write('{}\\n'), sys.exit()))"

    def child(name: str) -> Child:
        ready = f"open({str(tmp_path / name)!r}, 'a').write('ready\\n')"
        return starts(f"import signal,sys,time; {says.format(str(tmp_path / 'ends'), name)}; {ready}; time.sleep(60)")

    supervisor = Supervisor([child("web"), child("worker")])
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    for name in ("web", "worker"):
        wait_for_lines(tmp_path / name, 1)
    supervisor.stop()
    thread.join(20)
    assert (tmp_path / "ends").read_text().split() == ["worker", "web"]
