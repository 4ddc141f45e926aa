"""Sandboxes of a run: how fast they come and go, how much 100 idle ones hold, and that nothing of them is left.

`python -m tests.bench.bench_sandboxes [--backend podman] [--idle 100] [--cycles 1000]`: the image `hub/base` is made if
need be, below --data. Of one command's time, the bare program's own is given beside it; of a container's creation, what
the engine itself takes to create and start one on the same files. For podman the bench starts a daemon of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import aiohttp

from tests.workers.sandbox.running_engine import RunningEngine
from workers.broker.broker import Broker, BrokerSession
from workers.broker.interface import Wish
from workers.broker.life import Host
from workers.broker.limits import BrokerLimits
from workers.broker.room import Room
from workers.broker.tickets import Party, Tickets
from workers.images.base import ensure_base
from workers.images.interface import BASE, Image
from workers.images.store import Store
from workers.sandbox import Sandbox, backend
from workers.sandbox.backends import ISOLATING
from workers.sandbox.engine.podman import Podman

MIB = 1024 * 1024


class Unpacked:
    """One image, already there."""

    def __init__(self, image: Image) -> None:
        self.image = image

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        yield self.image


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - began)


async def measure_one(session: BrokerSession, repeat: int, engine: BareEngine | None) -> None:
    """Turn by turn with the engine, so that other work of the host weighs on both."""
    creations, executions, shells, ends, engines = [], [], [], [], []
    for _ in range(repeat):
        if engine is not None:
            engines.append(await engine.create())
        began = time.perf_counter()
        machine = await session.create(Wish())
        await machine.ready()
        creations.append(1000 * (time.perf_counter() - began))
        executions += [await timed(partial(machine.exec, ["true"])) for _ in range(5)]
        shells += [await timed(partial(machine.exec, ["bash", "-c", "python3 -c pass"])) for _ in range(2)]
        ends.append(await timed(machine.end))
    bare = [await timed(lambda: asyncio.to_thread(subprocess.run, ["true"], check=True)) for _ in range(repeat)]
    print(f"create {median(creations):.0f} ms, end {median(ends):.0f} ms, median of {repeat}")
    if engines:
        ratio = median(creations) / median(engines)
        print(f"the engine's own create and start {median(engines):.0f} ms: {ratio:.2f} times")
    print(f"exec true {median(executions):.1f} ms (bare {median(bare):.1f}), bash and python {median(shells):.0f} ms")


async def measure_idle(session: BrokerSession, number: int) -> None:
    began = time.perf_counter()
    machines = [await session.create(Wish()) for _ in range(number)]
    await asyncio.gather(*(machine.ready() for machine in machines))
    seconds = time.perf_counter() - began
    held = [(await machine.stats()).memory_bytes or 0 for machine in machines]
    print(f"{number} idle: {median(held) / MIB:.1f} MiB each (most {max(held) / MIB:.1f}), made in {seconds:.1f} s")
    await asyncio.gather(*(machine.end() for machine in machines))


async def measure_cycles(session: BrokerSession, sandbox: Sandbox, root: Path, cycles: int, side_by_side: int) -> None:
    before, began = leftovers(root), time.perf_counter()
    left = iter(range(cycles))

    async def worker() -> None:
        for _ in left:
            machine = await session.create(Wish())
            result = await machine.exec(["sh", "-c", "echo x > /tmp/x; cat /tmp/x"])
            assert result.stdout == b"x\n", result
            await machine.end()

    await asyncio.gather(*(worker() for _ in range(side_by_side)))
    seconds = time.perf_counter() - began
    for _ in range(50):  # groups of others on this host come and go
        after = leftovers(root)
        if after == before:
            break
        await asyncio.sleep(0.1)
    print(f"{cycles} create-exec-delete cycles, {side_by_side} at once: {cycles / seconds:.1f} a second; left {after}")
    assert after == before, (before, after)
    assert sandbox.sweep() == []


class BareEngine:
    """What the engine takes without us: its own layer, no files of ours, a program that only sleeps."""

    def __init__(self, podman: Podman, image: Path) -> None:
        self._podman = podman
        self._image = image
        self._numbers = count()

    async def create(self) -> float:
        """Milliseconds to create and start one; it is removed afterwards."""
        name = f"bare-{next(self._numbers)}"
        ulimits = [{"type": kind, "soft": 1024, "hard": 1024} for kind in ("nofile", "nproc")]
        bare = {"name": name, "rootfs": str(self._image), "rootfs_overlay": True, "command": ["sleep", "100"]}
        bare |= {"netns": {"nsmode": "none"}, "log_configuration": {"driver": "none"}, "r_limits": ulimits}

        async def make() -> None:
            await self._podman.create(bare)
            await self._podman.start(name)

        milliseconds = await timed(make)
        await self._podman.remove(name)
        return milliseconds


@asynccontextmanager
async def open_backend(
    name: str, folder: Path, image: Path, data: Path
) -> AsyncIterator[tuple[Sandbox, BareEngine | None]]:
    """For podman with a daemon of its own."""
    if name == "bwrap":
        yield backend(name, folder), None
        return
    engine = RunningEngine(folder / "engine", "--show", str(data.resolve()))
    engine.start()
    try:
        connector = aiohttp.UnixConnector(str(folder / "engine/podman/podman.sock"))
        async with aiohttp.ClientSession(connector=connector) as http:
            yield backend(name, folder, engine=engine.socket), BareEngine(Podman(http, ""), image)
    finally:
        engine.stop()


def leftovers(root: Path) -> dict[str, int]:
    """What a box might leave: processes, mounts, cgroups, files. Other workers of the host are not looked at."""
    groups = [path for path in Path("/sys/fs/cgroup").rglob("envhub-*") if path.is_dir() and is_empty(path)]
    groups += list(Path("/sys/fs/cgroup").rglob("envhub-engine-*/libpod-*"))
    processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and is_box(entry)]
    return {
        "processes": len(processes),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "cgroups": len(groups),
        "files": sum(1 for _ in (root / "boxes").rglob("*")) if (root / "boxes").exists() else 0,
    }


def is_empty(group: Path) -> bool:
    """Whether all have left it, and nobody has removed it."""
    try:
        return not (group / "cgroup.procs").read_text()
    except OSError:
        return False


def is_box(entry: Path) -> bool:
    """Bubblewrap that this process has started, or whose starter has died; of containers the agent, below conmon."""
    try:
        parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        starter = Path(f"/proc/{parent}/comm").read_text().strip()
        ours = parent in (os.getpid(), 1) or starter == "conmon"
        return b"/run/envhub/agent.py" in (entry / "cmdline").read_bytes() and ours
    except OSError:
        return False


async def main(options: argparse.Namespace) -> None:
    store = Store(options.data / "images", max_bytes=10**11)
    holding = await ensure_base(store)
    kept = holding.kept
    image = Image(BASE, kept.digest, holding.root, env=dict(kept.config.env), workdir=kept.config.workdir)
    with tempfile.TemporaryDirectory(prefix="bs-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        async with open_backend(options.backend, folder, image.root, options.data) as (sandbox, engine):
            limits = BrokerLimits(at_once=10_000)
            tickets = Tickets(folder / "tickets", Room(sandboxes=10_000), Party("bench", "1"))
            broker = Broker(Host(sandbox, Unpacked(image), tickets, limits))
            async with broker.session() as session:
                await measure_one(session, options.repeat, engine)
                await measure_idle(session, options.idle)
                await measure_cycles(session, sandbox, folder, options.cycles, options.at_once)
    holding.release()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_sandboxes", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/envhub-test-worker", help="has images/")
    parser.add_argument("--backend", choices=ISOLATING, default="bwrap")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--idle", type=int, default=100)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
