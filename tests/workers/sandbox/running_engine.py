"""The engine's daemon as its operator runs it: a process of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from workers.sandbox.engine.host import cgroup_parent, usable_tree

RESTART_S = 2.0  # as in the unit of systemd


def need_podman() -> None:
    """Skip the test where no daemon can run."""
    if os.geteuid() != 0 or shutil.which("podman") is None:
        pytest.skip("podman is not installed, or its daemon not root's")


class RunningEngine:
    """Below `folder`. It may be killed and started again."""

    def __init__(self, folder: Path, *options: str, module: str = "workers.sandbox.engine") -> None:
        self._options = options
        self._module = module
        self.socket = folder / "engine.sock"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", self._module, "--socket", str(self.socket), "--show", "/tmp"]
        self.process = subprocess.Popen([*command, *self._options], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("engine ready"), line

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(30) == 0

    @contextmanager
    def kept_running(self) -> Iterator[None]:
        """Run it, and start it again when it has ended, as its service manager does."""
        over = Event()

        def keep() -> None:
            while not over.wait(0.1):
                if self.process is not None and self.process.poll() is not None and not over.wait(RESTART_S):
                    self.start()

        self.start()
        keeper = Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
            self.stop()

    def processes(self, name: str) -> list[int]:
        """Its processes: the `daemon` itself, podman's `service`, or each container's `monitor`."""
        assert self.process is not None
        mark = str(self.socket.parent).encode()
        programs = {"daemon": b"workers.sandbox.engine", "service": b"system\0service", "monitor": b"conmon"}
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark in command and programs[name] in command:
                found.append(int(entry.name))
        return found

    def leftovers(self) -> dict[str, list[str]]:
        """What a container might leave: processes, folders, records of the engine, mounts, cgroups."""
        assert self.process is not None
        folder = self.socket.parent
        mounts = Path(f"/proc/{self.process.pid}/mountinfo").read_text().splitlines()
        podman = ("podman", "--root", folder / "podman/storage", "--runroot", folder / "podman/run")
        listed = [*podman, "--tmpdir", folder / "podman/tmp", "--storage-driver", "vfs", "ps", "-aq"]
        found = {
            "agents": [str(pid) for pid in self.agents()],
            "monitors": [str(pid) for pid in self.processes("monitor")],
            "folders": [str(path) for path in (folder / "boxes").iterdir()],
            "mounts": [line for line in mounts if f"{folder}/boxes/" in line],
            "containers": subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split(),
            "groups": [str(path) for path in Path("/sys/fs/cgroup").rglob(f"{self.group}/libpod-*")],
        }
        return {name: items for name, items in found.items() if items}

    @property
    def group(self) -> str:
        """The name of the group above those of its containers."""
        return Path(cgroup_parent(usable_tree(), self.socket.parent)).name

    def agents(self) -> list[int]:
        """The first processes of its containers, as the host's pids."""
        return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if self._is_agent(entry)]

    def _is_agent(self, entry: Path) -> bool:
        try:
            mine = str(self.socket.parent) in (entry / "mountinfo").read_text()
            (names,) = [line for line in (entry / "status").read_text().splitlines() if line.startswith("NSpid:")]
            agent = b"/run/envhub/agent.py" in (entry / "cmdline").read_bytes()
        except OSError:
            return False
        return mine and agent and names.split()[-1] == "1"  # one that it has forked is not the first process

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)
