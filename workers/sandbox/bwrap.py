"""The default sandbox backend: bubblewrap, with its own uid, namespaces and cgroup for each box."""

import asyncio
import contextlib
import functools
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import agent_python, layers, records
from .box import NO_STATS, AgentBox
from .cgroups import KernelGroup, Tree, find_tree, make_group, planned_paths
from .channel import Channel, channel_pair, sealed_file
from .errors import BoxFailed, BoxGone, BoxOutOfMemory, NotEnforceable, SandboxError
from .identity import Identity, describe, find_bwrap, new_identity
from .interface import GATEWAY_PORT, PROXY_PORT, SOCKETS, Bind, BoxSpec, Facts, Limits, Stats
from .kept_changes import ChangesLine
from .layers import PYTHON
from .options import Protection, bwrap_options, system_folders
from .owners import started_at
from .proxy import open_sockets
from .seccomp import program
from .watch import watch_memory

START_SECONDS = 20.0
NO_MEMORY_GROUP = (
    "no cgroup may be made: memory is watched five times a second and the box killed, not held by the kernel"
)
# separate threads, because unpacking an image may occupy the default ones for long
_threads = ThreadPoolExecutor(4, "box")
AGENT = "/run/envhub/agent.py"
FORWARDER = "/run/envhub/forwarder.py"
NO_IMAGES = "boxes on images need writable layers, which this host does not make"


def rlimits(limits: Limits) -> dict[str, int]:
    """Return limits by their names in the `resource` module.

    A box cannot get more open files than the worker may have.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        "RLIMIT_NOFILE": limits.open_files if most == resource.RLIM_INFINITY else min(limits.open_files, most),
        "RLIMIT_NPROC": limits.pids,
        "RLIMIT_FSIZE": limits.disk_bytes,
        "RLIMIT_CORE": 0,
    }


def routes(spec: BoxSpec) -> dict[str, str]:
    """Map ports on the box's loopback to the unix sockets behind them."""
    found = {} if spec.network == "none" else {str(GATEWAY_PORT): f"{SOCKETS}/gateway.sock"}
    if spec.has_proxy:
        found[str(PROXY_PORT)] = f"{SOCKETS}/proxy.sock"
    return found


def base_bind() -> list[Bind]:
    """Return a bind for the agent's interpreter if it is not below /usr."""
    base = Path(os.path.realpath(sys.base_prefix))
    return [] if base.is_relative_to("/usr") else [Bind(base, str(base))]


def refuse_unreadable(binds: Iterable[Bind]) -> None:
    """Raise BoxFailed for a bind that the box's uid ("nobody" on the host) cannot read.

    Directories above the bind may be closed.
    """
    for bind in binds:
        wanted = 0o5 if bind.source.is_dir() else 0o4
        if bind.source.exists() and bind.source.stat().st_mode & wanted != wanted:
            raise BoxFailed(f"{bind.source} cannot be read in a box", f"chmod o+rx {bind.source}")


def can_have_view(bind: Bind) -> bool:
    """Return whether an overlay can show the bind: a directory, and not that of sockets, which answer only in place."""
    return not bind.layer and bind.target != SOCKETS and bind.source.is_dir()


def hand_over(directory: Path, identity: Identity) -> None:
    """Give the directory of sockets to the box's user, so that no other user of the host can use them.

    It is bound read-only.
    """
    if identity.mode == "root":
        os.chown(directory, identity.uid, identity.gid)
    directory.chmod(0o700)
    for path in directory.iterdir():
        if path.is_socket():
            path.chmod(0o666)


class BwrapSandbox:
    """Implements interface.Sandbox. `without` drops protections, only for the doctor's negative control."""

    def __init__(self, root: Path, *, tree: Tree | None = None, without: Iterable[Protection] = ()) -> None:
        self._root = root.resolve()
        self._bwrap = find_bwrap()
        self._tree = find_tree() if tree is None else tree
        self._without = frozenset(without)
        driver = f"cgroups: {self._tree.driver}"
        on_images = not layers.trouble(self._root)
        self.facts = Facts("bwrap", True, describe(), driver, self._downgrades(), self._tree.has_cpu, True, on_images)

    def _downgrades(self) -> tuple[str, ...]:
        found = []
        if self._tree.driver == "none":
            found.append(NO_MEMORY_GROUP)
        if not self._tree.has_cpu:
            found.append("the CPU share is not enforced: no cpu cgroup may be made")
        if reason := layers.trouble(self._root):
            found.append(f"{layers.NO_LAYERS} ({reason})")
        if shared := layers.shared_folders(self._root):
            found.append(f"{layers.NO_VIEWS} ({', '.join(shared)})")
        return tuple(found)

    def sweep(self) -> list[str]:
        return records.sweep(self._root)

    @contextlib.asynccontextmanager
    async def create(self, spec: BoxSpec) -> AsyncIterator[AgentBox]:
        if spec.limits.cpus is not None and not self._tree.has_cpu:
            raise NotEnforceable("this host cannot limit a box's CPU", "leave cpus out, or delegate a cgroup")
        if spec.root is not None and (reason := layers.trouble(spec.root)):
            raise NotEnforceable(NO_IMAGES, reason)
        box_id = os.urandom(8).hex()
        record = records.new_record(self._root, box_id)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._remove, record)
            identity = new_identity()
            record.uid = identity.uid
            sockets = await self._sockets(spec, box_id, identity, stack)
            box = await self._start(spec, record, identity, sockets, stack)
            yield box

    async def _remove(self, record: records.Record) -> None:
        """Wait in a thread until the box's processes are gone: freeing many files or much memory takes a second."""
        await asyncio.get_running_loop().run_in_executor(_threads, records.remove, self._root, record)

    async def _sockets(
        self, spec: BoxSpec, box_id: str, identity: Identity, stack: contextlib.AsyncExitStack
    ) -> Path | None:
        """Prepare the directory that is bound at /run/hub."""
        directory = await open_sockets(records.boxes_directory(self._root) / box_id, spec, stack)
        if directory is not None:
            hand_over(directory, identity)
        return directory

    def _group(self, spec: BoxSpec, record: records.Record) -> KernelGroup | None:
        if self._tree.driver == "none":
            return None
        return make_group(self._tree, record.id, spec.limits)

    def _orders(
        self, spec: BoxSpec, identity: Identity, sockets: Path | None, group: KernelGroup | None, control: int
    ) -> dict[str, Any]:
        binds = [*self._interpreter(spec), *spec.binds, *([Bind(sockets, SOCKETS)] if sockets else [])]
        binds = [replace(bind, layer=bind.layer and not layers.trouble(bind.source)) for bind in binds]
        has_views = not self._without & {Protection.VIEWS, Protection.READ_ONLY}
        system = system_folders() if has_views and spec.root is None else {}
        if identity.mode == "root":
            refuse_unreadable([*base_bind(), *spec.binds])
        return {
            "mode": identity.mode,
            "uid": identity.uid,
            "gid": identity.gid,
            "parent": os.getpid(),
            "control": control,
            "cgroups": group.procs if group else [],
            "root": str(spec.root) if spec.root else None,
            "binds": [str(bind.source) for bind in binds],
            "layers": [index for index, bind in enumerate(binds) if bind.layer],
            "views": [index for index, bind in enumerate(binds) if has_views and can_have_view(bind)],
            "system": system,
            "disk_bytes": spec.limits.disk_bytes,
            "files": spec.limits.files,
            "options": bwrap_options(
                targets=[(bind.target, bind.layer) for bind in binds],
                hostname=spec.hostname,
                seccomp=program(watched_memory=group is None, on_image=spec.root is not None),
                system_views=system,
                on_image=spec.root is not None,
                without=self._without,
            ),
            "bwrap": self._bwrap,
            "command": self._python(spec, AGENT, str(control)),
        }

    def _interpreter(self, spec: BoxSpec) -> list[Bind]:
        return base_bind() if spec.root is None else [Bind(agent_python.agent_python(self._root), agent_python.IN_BOX)]

    def _python(self, spec: BoxSpec, *arguments: str) -> list[str]:
        """Return a command line for the agent's interpreter in a box of this specification."""
        if spec.root is None:
            return [PYTHON, "-I", "-S", *arguments]
        return agent_python.command(agent_python.agent_python(self._root), *arguments)

    async def _start(
        self,
        spec: BoxSpec,
        record: records.Record,
        identity: Identity,
        sockets: Path | None,
        stack: contextlib.AsyncExitStack,
    ) -> AgentBox:
        record.cgroups = [str(path) for path in planned_paths(self._tree, record.id)]
        records.write_record(self._root, record)
        group = self._group(spec, record)
        channel, far = channel_pair()
        stack.callback(channel.close)
        line = ChangesLine() if spec.keeps_changes else None
        if line is not None:
            stack.callback(line.close)
        orders = self._orders(spec, identity, sockets, group, far.fileno())
        orders["changes"] = line.far if line is not None else -1
        process = self._launch(orders, far, record, stack)
        stats = group.stats if group else lambda: NO_STATS
        by_signal = functools.partial(ended_by_signal, process)
        box = AgentBox(record.id, spec, channel, end=process.kill, by_signal=by_signal, stats=stats, line=line)
        stack.push_async_callback(box.kill)
        orders = {"limits": rlimits(spec.limits), "forward": routes(spec), "forwarder": self._python(spec, FORWARDER)}
        await self._await_ready(channel, {**orders, "lazy": spec.root is not None}, process, stats)
        loop = asyncio.get_running_loop()
        end = loop.call_later(spec.limits.lifetime_seconds, box.expire)
        stack.callback(end.cancel)
        if group is None:
            watch = asyncio.create_task(watch_memory(box, process.pid, spec.limits.memory_bytes))
            stack.callback(watch.cancel)
        return box

    def _launch(
        self, orders: dict[str, Any], far: socket.socket, record: records.Record, stack: contextlib.AsyncExitStack
    ) -> "subprocess.Popen[bytes]":
        """Start bwrap from this thread; the box dies with the thread (--die-with-parent)."""
        config = sealed_file(json.dumps(orders).encode())
        kept = [one for one in (orders["control"], orders["changes"]) if one >= 0]
        try:
            process = subprocess.Popen(
                layers.LAUNCHER,
                stdin=config, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env={}, pass_fds=kept, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(config)
            far.close()
        stack.callback(_reap, process)
        record.pid, record.pid_start = process.pid, started_at(process.pid)
        records.write_record(self._root, record)
        return process

    async def _await_ready(
        self,
        channel: Channel,
        payload: dict[str, Any],
        process: "subprocess.Popen[bytes]",
        stats: Callable[[], Stats],
    ) -> None:
        try:
            await channel.start(payload)
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(channel.ready)
        except (BoxGone, TimeoutError) as error:
            process.kill()
            if stats().oom_kills:
                raise BoxOutOfMemory("its memory limit ended it while it started", "ask for more memory") from error
            raise BoxFailed("the sandbox did not start", _last_words(process)) from error


async def ended_by_signal(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether bwrap itself was killed, which processes in the box cannot do.

    If they kill the agent, bwrap exits normally.
    """
    for _ in range(100):
        if process.poll() is not None:
            return process.returncode < 0
        await asyncio.sleep(0.01)
    return False


def _last_words(process: "subprocess.Popen[bytes]") -> str:
    """Return what the launcher or bwrap wrote to stderr before it ended."""
    if process.stderr is None:
        return ""
    os.set_blocking(process.stderr.fileno(), False)
    text = process.stderr.read(2000) or b""
    return text.decode(errors="replace").strip()


def _reap(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait(10)
    if process.stderr is not None:
        process.stderr.close()


__all__ = ["PYTHON", "BwrapSandbox", "SandboxError"]
