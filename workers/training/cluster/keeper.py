"""A Ray actor on one of a run's hosts: it receives files and keeps one process there, for the learner, an engine or
rollouts.

It is the same process that a single host would start. It ends with the actor, and the actor with its run's driver.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import ray
from envhub.client.outside.own_processes import MARK
from envhub.protocol.placing.gpus import Gpu

from workers import settings
from workers.inference.address import EngineAddress, new_key
from workers.inference.policy_engine import START_SECONDS, PolicyEngineStart
from workers.inference.process import PASSED, QUIET, EngineProcess, answers, free_port, lines_of, spawn
from workers.runs.children import Children
from workers.runs.trimming import last_use
from workers.training.cluster.rollout_wire import RolloutServerStart
from workers.training.learner.directory.folders import MANIFEST
from workers.training.learner.directory.run_dir import RunDir

NETWORK = ("NCCL_", "GLOO_", "TORCH_NCCL_", "UCX_", "FI_")  # the operator's settings for collectives
LINES, LAST_LINES, LINE_CHARS = 1000, 8, 2000
KEPT_S = 7 * 24 * 3600.0  # for files of a run whose end this host was not told


@dataclass(frozen=True)
class Here:
    """The place of an actor."""

    node: str
    ip: str
    root: str  # of the run's files on that host
    port: int  # was free when it was asked for


@dataclass(frozen=True)
class Ended:
    """The end of a learner process: its exit status (negative for a signal) and learner.error.json (empty: none)."""

    status: int
    error: bytes


class RolloutServerDied(Exception):
    """The server ended or did not answer in time; the message has its last lines."""


class NoRollouts(RolloutServerDied):
    """This host must not run rollouts."""


class Keeper:
    """`run_id` names the run's folder on this host. All methods run in the actor's single event loop."""

    def __init__(self, run_id: str) -> None:
        self._settings = settings.load()
        folder = self._settings.folder("cluster-runs")
        for old in folder.iterdir():
            if time.time() - (last_use(old) or 0.0) > KEPT_S and not is_used(old):
                shutil.rmtree(old, ignore_errors=True)
        self._root = folder / run_id
        self._root.mkdir(exist_ok=True)
        self._use = use(self._root)
        self._children = Children(self._root / "children")
        (self._root / "children").mkdir(exist_ok=True)
        self._home = self._settings.folder("engine-home")
        self._process: asyncio.subprocess.Process | None = None
        self._engine: EngineProcess | None = None
        self._lines: deque[str] = deque(maxlen=LINES)
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def here(self) -> Here:
        """Return where this actor is."""
        node = ray.get_runtime_context().get_node_id()
        return Here(node, ray.util.get_node_ip_address(), str(self._root), free_port())

    async def wants(self, name: str, manifest: bytes = b"") -> bool:
        """Return whether directory `name` is missing here; then make an empty one for its pieces.

        One with another manifest is of an earlier attempt of the run, which began from the same checkpoint, and goes.
        """
        target = self._root / name
        if target.is_dir():
            if not manifest or read(target / MANIFEST) == manifest:
                return False
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
        shutil.rmtree(self._unfinished(name), ignore_errors=True)
        self._unfinished(name).mkdir(parents=True)
        return True

    async def piece(self, name: str, path: str, offset: int, content: bytes) -> None:
        """Write a part of a file."""
        await asyncio.to_thread(write_at, self._unfinished(name) / path, offset, content)

    async def write(self, path: str, content: bytes) -> None:
        """Write a small file below the run's folder atomically."""
        target = Path(path)
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        unfinished.write_bytes(content)
        unfinished.replace(target)

    async def complete(self, name: str, keep: int) -> str:
        """Finish a directory whose pieces have all arrived, and return its path.

        Of its siblings, the `keep` that came last stay (0: all).
        """
        target = self._root / name
        try:
            self._unfinished(name).rename(target)
        except OSError:  # another actor of the run was faster
            shutil.rmtree(self._unfinished(name), ignore_errors=True)
        os.utime(target)
        if keep:
            siblings = [path for path in target.parent.iterdir() if path.name[0] != "."]
            for old in sorted(siblings, key=modified)[:-keep]:
                await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)
        return str(target)

    async def start_engine(self, start: PolicyEngineStart, ip: str) -> tuple[str, str]:
        """Start an engine, or a part of one, that serves `start.directory`; return its address and key.

        Only a first part answers; it does so when the others have joined it. Raises EngineDied.
        """
        gpus = tuple(Gpu(index=int(index), uuid="", name="", memory_mb=0, free_mb=0) for index in ray.get_gpu_ids())
        own = replace(
            start,
            gpus=gpus,
            threads=self._settings.engine_threads,
            vllm_python=self._settings.vllm_python,
            vllm_arguments=self._settings.vllm_arguments,
        )
        port, part = free_port(), own.part
        self._engine = await EngineProcess.start(
            own.command(port, host=ip),
            port,
            children=self._children,
            extra={**own.variables(), **network(), **({"VLLM_HOST_IP": ip} if part else {})},
            home=self._home,
            host=ip,
            folder=part.root if part else None,
        )
        if not (part and part.number):
            await self._engine.wait_ready(START_SECONDS[own.kind])
        return self._engine.address.base_url, self._engine.address.key

    async def engine_ended(self) -> str:
        """Wait until the engine has ended and return why."""
        assert self._engine is not None
        await self._engine.wait()
        return str(await self._engine.death())

    async def start_learner(self, root: str, variables: Mapping[str, str]) -> None:
        """Start one of the run's learner processes on the directory `root`."""
        RunDir(Path(root)).error.unlink(missing_ok=True)
        passed = {name: os.environ[name] for name in (*PASSED, "PYTORCH_ALLOC_CONF") if name in os.environ}
        command = [sys.executable, "-m", "workers.training.learner", root]
        environment = {**passed, **QUIET, **network(), "HOME": str(self._home), **variables}
        self._process = await spawn(command, environment)
        self._children.record(self._process.pid, what="learner")
        self._reading = asyncio.create_task(self._read(self._process))

    async def start_rollouts(self, start: dict[str, object], ip: str) -> tuple[str, str]:
        """Start a rollout server; return its address and key. Raises RolloutServerDied."""
        if not self._settings.ray_rollouts:
            raise NoRollouts("WORKER_RAY_ROLLOUTS is false there")
        address = EngineAddress(f"http://{ip}:{free_port()}/v1", new_key())
        port = int(address.root.rpartition(":")[2])
        told = RolloutServerStart.model_validate({**start, "host": ip, "port": port, "key": address.key})
        passed = {name: os.environ[name] for name in PASSED if name in os.environ}
        own = {name: value for name, value in os.environ.items() if name.startswith(settings.PREFIX)}
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.training.cluster.rollout_server"),
            env={**passed, **own, **QUIET, "HOME": str(self._home), MARK: "1"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._children.record(process.pid, what="rollouts")
        self._reading = asyncio.create_task(self._read(process))
        assert process.stdin is not None
        # contains the run's secrets, so it is never on a disk
        process.stdin.write(told.model_dump_json().encode() + b"\n")
        await process.stdin.drain()
        ends = time.monotonic() + 2 * self._settings.load_limit_s
        while process.returncode is None and time.monotonic() < ends:
            if await answers(address):
                return address.base_url, address.key
            await asyncio.sleep(0.2)
        raise RolloutServerDied(await self.rollouts_ended() if process.returncode is not None else "it is not ready")

    async def rollouts_ended(self) -> str:
        """Wait until the rollout server has ended and return its last words."""
        assert self._process is not None
        assert self._reading is not None
        status = await self._process.wait()
        await asyncio.wait([self._reading], timeout=1.0)
        return f"the rollout server ended ({status}). " + " / ".join(self._last)

    async def lines(self) -> list[str]:
        """Wait for new output of the process and return it; empty once the process has ended."""
        assert self._reading is not None
        while not self._lines and not self._reading.done():
            self._news.clear()
            await self._news.wait()
        said = list(self._lines)
        self._lines.clear()
        return said

    async def learner_ended(self, root: str) -> Ended:
        """Wait until the learner process has ended."""
        assert self._process is not None
        status = await self._process.wait()
        error = b""
        with suppress(OSError):
            error = RunDir(Path(root)).error.read_bytes()
        return Ended(status, error)

    async def stop(self, *, gently: bool = False) -> None:
        """End the process and everything that it started."""
        if self._engine is not None:
            await self._engine.stop(gently=gently)
        if self._process is not None:
            await asyncio.to_thread(self._children.end, self._process.pid)

    async def remove(self) -> None:
        """End the process and remove the run's files from this host."""
        await self.stop()
        await asyncio.to_thread(shutil.rmtree, self._root, ignore_errors=True)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        try:
            async for line in lines_of(process, LINE_CHARS):
                self._lines.append(line)
                self._last.append(line)
                self._news.set()
        finally:
            asyncio.get_running_loop().call_soon(self._news.set)

    def _unfinished(self, name: str) -> Path:
        target = self._root / name
        return target.with_name(f".{target.name}.{os.getpid()}")


def use(folder: Path) -> int:
    """Hold a shared lock on a run's folder for as long as this process lives: a run may last longer than KEPT_S."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def is_used(folder: Path) -> bool:
    """Return whether a keeper on this host holds the folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read(file: Path) -> bytes:
    """Return a file's content; empty if it is missing."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def modified(path: Path) -> int:
    """Return when a directory was last changed, in nanoseconds; 0 if it is gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def write_at(path: Path, offset: int, content: bytes) -> None:
    """Write into a file; create it if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(content)


def network() -> dict[str, str]:
    """Return the operator's settings for collectives on this host."""
    return {name: value for name, value in os.environ.items() if name.startswith(NETWORK)}
