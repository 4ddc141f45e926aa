"""Kernel limits for a box: cgroup v1 or v2 below the worker's own group, or none (then see watch.py).

A box's group is a child of the worker's own group (or its sibling, where v2 forbids a child), never of the root group,
because the worker itself may be limited.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from .interface import Limits, Stats

CPU_PERIOD = 100_000
PEAK_SLACK = 1 << 20  # what fails may be several pages at once, and is then not in the peak
NEEDED = frozenset({"memory", "pids"})
Driver = Literal["v1", "v2", "none"]


class Group(Protocol):
    """The cgroups of one box."""

    paths: list[Path]

    def stats(self) -> Stats: ...


@dataclass(frozen=True)
class Tree:
    """Where this process may make groups: one directory per controller with v1, the same one for all with v2."""

    driver: Driver
    parents: dict[str, Path]

    @property
    def has_cpu(self) -> bool:
        return "cpu" in self.parents


NONE = Tree("none", {})


def read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def read_field(path: Path, name: str) -> int:
    """Return the number after `name` in a file of "name number" lines, 0 if there is none."""
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name and value.strip().isdigit():
                return int(value)
    return 0


def find_tree(mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Tree:
    """Find out what this process may use, by actually making a group."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return NONE
    version1 = {name: path for _, names, path in lines for name in names.split(",") if name}
    if version1.keys() >= NEEDED:
        return v1_tree(mount, version1)
    unified = next((path for number, names, path in lines if number == "0" and not names), None)
    return v2_tree(mount, unified) if unified is not None else NONE


def v1_tree(mount: Path, own: dict[str, str]) -> Tree:
    parents: dict[str, Path] = {}
    for controller in ("memory", "pids", "cpu", "cpuacct"):
        parent = mount / controller / own.get(controller, "/").lstrip("/")
        if controller in own and can_make_groups(parent):
            parents[controller] = parent
    return Tree("v1", parents) if parents.keys() >= NEEDED else NONE


def v2_tree(mount: Path, own: str) -> Tree:
    """Use the worker's own group if its children can have controllers, else the group above it."""
    here = mount / own.lstrip("/")
    for parent in (here, here.parent):
        if not parent.is_relative_to(mount) or not can_make_groups(parent):
            continue
        enabled = enable_controllers(parent)
        if enabled >= NEEDED:
            return Tree("v2", dict.fromkeys(enabled & {"memory", "pids", "cpu"}, parent))
    return NONE


def enable_controllers(parent: Path) -> frozenset[str]:
    """Enable the controllers for child groups one by one and return those that are enabled.

    A group that contains processes refuses this.
    """
    control = parent / "cgroup.subtree_control"
    try:
        missing = set((parent / "cgroup.controllers").read_text().split()) - set(control.read_text().split())
        for name in sorted(missing & {"memory", "pids", "cpu"}):
            with contextlib.suppress(OSError):
                control.write_text(f"+{name}")
        return frozenset(control.read_text().split())
    except OSError:
        return frozenset()


def can_make_groups(parent: Path) -> bool:
    """Return whether a group can be made there and one of our processes moved into it."""
    if not os.access(parent / "cgroup.procs", os.W_OK):
        return False
    probe = parent / f"envhub-probe-{os.getpid()}-{time.monotonic_ns()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def limit_files(tree: Tree, limits: Limits) -> dict[str, dict[str, str]]:
    """Return what to write: controller -> file -> text.

    The agent, bwrap and the forwarder may have 8 processes in addition.
    """
    quota = str(int((limits.cpus or 1.0) * CPU_PERIOD))
    memory, pids = str(limits.memory_bytes), str(limits.pids + 8)
    if tree.driver == "v1":
        return {
            "memory": {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory},
            "pids": {"pids.max": pids},
            "cpu": {"cpu.cfs_period_us": str(CPU_PERIOD), "cpu.cfs_quota_us": quota},
            "cpuacct": {},
        }
    return {
        "memory": {"memory.max": memory, "memory.swap.max": "0", "memory.oom.group": "0"},
        "pids": {"pids.max": pids},
        "cpu": {"cpu.max": f"{quota} {CPU_PERIOD}"},
    }


# missing in kernels without swap
OPTIONAL = frozenset({"memory.memsw.limit_in_bytes", "memory.swap.max", "memory.oom.group"})


@dataclass(frozen=True)
class KernelGroup:
    """The group of one box with its limits set; processes enter it by writing their pid to the files in `procs`."""

    tree: Tree
    directories: dict[str, Path]

    @property
    def paths(self) -> list[Path]:
        return sorted(set(self.directories.values()))

    @property
    def procs(self) -> list[str]:
        return [str(path / "cgroup.procs") for path in self.paths]

    def stats(self) -> Stats:
        memory, pids = self.directories["memory"], self.directories["pids"]
        own, others = self._kills(memory)
        if self.tree.driver == "v1":
            usage = (
                read_number(self.directories["cpuacct"] / "cpuacct.usage") if "cpuacct" in self.directories else None
            )
            return Stats(
                memory_bytes=read_number(memory / "memory.usage_in_bytes"),
                peak_memory_bytes=read_number(memory / "memory.max_usage_in_bytes"),
                pids=read_number(pids / "pids.current"),
                cpu_seconds=None if usage is None else usage / 1e9,
                oom_kills=own,
                host_kills=others,
            )
        return Stats(
            memory_bytes=read_number(memory / "memory.current"),
            peak_memory_bytes=read_number(memory / "memory.peak"),
            pids=read_number(pids / "pids.current"),
            cpu_seconds=read_field(memory / "cpu.stat", "usage_usec") / 1e6,
            oom_kills=own,
            host_kills=others,
        )

    def _kills(self, memory: Path) -> tuple[int, int]:
        """Return how many processes were killed for memory: because of the group's own limit, and because of others.

        The kernel counts both together. They are the group's own doing once it has reached its limit. For that, v1 has
        only the peak: recent kernels do not count failures (memory.failcnt).
        """
        if self.tree.driver == "v1":
            kills = read_field(memory / "memory.oom_control", "oom_kill")
            peaks = [read_number(memory / f"{name}.max_usage_in_bytes") or 0 for name in ("memory", "memory.memsw")]
            limit = read_number(memory / "memory.limit_in_bytes") or 0
            reached = max(peaks) + PEAK_SLACK >= limit
        else:
            kills = read_field(memory / "memory.events", "oom_kill")
            reached = read_field(memory / "memory.events", "oom") > 0
        return (kills, 0) if reached else (0, kills)


def planned_paths(tree: Tree, box_id: str) -> list[Path]:
    """Return the directories that make_group will make. They are recorded first, so that a sweep finds them."""
    return sorted({parent / f"envhub-{box_id}" for parent in tree.parents.values()})


def make_group(tree: Tree, box_id: str, limits: Limits) -> KernelGroup:
    """Make the groups of a box and set its limits. Raises OSError if a required limit cannot be set."""
    directories = {name: parent / f"envhub-{box_id}" for name, parent in tree.parents.items()}
    for path in set(directories.values()):
        path.mkdir(exist_ok=True)
    for controller, files in limit_files(tree, limits).items():
        for name, text in files.items():
            if controller not in directories:
                continue
            try:
                (directories[controller] / name).write_text(text)
            except OSError:
                if name not in OPTIONAL:
                    raise
    return KernelGroup(tree, directories)


def remove_cgroup(path: Path, patience: float = 30.0) -> None:
    """Kill the processes in a group and remove it, retrying until they are gone.

    Nobody tries again later. On a busy host processes with much memory take seconds to die.
    """
    deadline = time.monotonic() + patience
    with contextlib.suppress(OSError):
        (path / "cgroup.kill").write_text("1")
    while path.exists():
        with contextlib.suppress(OSError):
            for pid in (path / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        if time.monotonic() > deadline:
            return
        time.sleep(0.005)
