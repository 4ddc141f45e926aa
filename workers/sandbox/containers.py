"""Boxes on images as containers of an engine.

This process has none of the engine's rights: for each connection a daemon (workers.sandbox.engine) makes one container,
hands over the connection to its agent, and removes the container when the connection ends.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from . import records
from .box import AgentBox
from .bwrap import rlimits, routes
from .cgroups import KernelGroup, Tree
from .channel import Channel
from .engine.wire import MAX_MESSAGE, Ended, Failed, Hello, Invalid, Made, Mount, Order, engine_socket, packet, read
from .errors import BoxFailed, BoxGone, BoxKilled, EngineAway, NotEnforceable, Unavailable
from .interface import BoxSpec, Facts, Stats
from .proxy import open_sockets

FORWARDER = "/run/envhub/forwarder.pyc"
START_SECONDS, REMOVE_SECONDS, ENDED_SECONDS, HELLO_SECONDS = 60.0, 60.0, 6.0, 10.0
AWAY_TRIES, AWAY_PAUSE = 60, 0.5
NO_HOST_BOXES = "containers need an image"


class ContainerSandbox:
    """Implements interface.Sandbox."""

    def __init__(self, root: Path, engine: Path) -> None:
        self._root = root.resolve()
        self._engine = engine
        hello = self._greet()
        identity = f"{hello.engine}, {hello.identity}"
        self.facts = Facts("podman", True, identity, hello.limits, limits_cpu=hello.limits_cpu, on_host=False)

    def _connect(self) -> socket.socket:
        connection = engine_socket()
        try:
            connection.connect(str(self._engine))
        except OSError as error:
            connection.close()
            hint = f"as root: python -m workers.sandbox.engine --show FOLDER --socket {self._engine}"
            if isinstance(error, PermissionError):
                raise Unavailable(f"this worker may not use the engine's daemon at {self._engine}", hint) from error
            raise EngineAway(f"no engine's daemon answers at {self._engine} ({error.strerror})", hint) from error
        return connection

    async def _connected(self) -> socket.socket:
        """Connect, and wait for a daemon that is being started again. Raises EngineAway."""
        for _ in range(AWAY_TRIES):
            with contextlib.suppress(EngineAway):
                return self._connect()
            await asyncio.sleep(AWAY_PAUSE)
        return self._connect()

    def _greet(self) -> Hello:
        with self._connect() as connection:
            connection.settimeout(HELLO_SECONDS)
            try:
                hello = read(connection.recv(MAX_MESSAGE), Hello)
            except OSError as error:
                raise Unavailable(f"the engine's daemon at {self._engine} is silent", "start it again") from error
            except Invalid:
                hello = None
        if hello is None:
            hint = f"may user {os.geteuid()} use it (--user), and is it of this release?"
            raise Unavailable(f"the engine's daemon at {self._engine} does not talk to this worker", hint)
        return hello

    def sweep(self) -> list[str]:
        """Sweep the records. The containers of dead owners are already gone, because their connections have ended."""
        return records.sweep(self._root)

    @contextlib.asynccontextmanager
    async def create(self, spec: BoxSpec) -> AsyncIterator[AgentBox]:
        if spec.root is None:
            raise NotEnforceable(NO_HOST_BOXES, "name bwrap in WORKER_SANDBOXES as well, for boxes without one")
        if spec.keeps_changes:
            raise NotEnforceable("the engine does not hand out what a box writes", "use the bwrap backend")
        record = records.new_record(self._root, os.urandom(8).hex())
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(records.remove, self._root, record)
            sockets = await self._sockets(spec, record.id, stack)
            yield await self._start(spec, order(spec, record.id, sockets), stack)

    async def _sockets(self, spec: BoxSpec, box_id: str, stack: contextlib.AsyncExitStack) -> Path | None:
        """Prepare the directory that the container sees at /run/hub; on the host nobody else may enter it."""
        directory = await open_sockets(records.boxes_directory(self._root) / box_id, spec, stack)
        if directory is not None:
            directory.chmod(0o700)
            for path in directory.iterdir():
                if path.is_socket():
                    path.chmod(0o666)
        return directory

    async def _start(self, spec: BoxSpec, order: Order, stack: contextlib.AsyncExitStack) -> AgentBox:
        held = Held(await self._connected())
        stack.push_async_callback(held.removed)
        made, agent = await held.make(order)
        channel = Channel(agent)
        stack.callback(channel.close)
        parents = {name: Path(path).parent for name, path in made.cgroups.items()}
        group = KernelGroup(Tree(made.driver, parents), {name: Path(path) for name, path in made.cgroups.items()})
        box = AgentBox(order.id, spec, channel, end=held.end, by_signal=held.by_signal, stats=Memory(group).stats)
        held.tell(box)
        stack.push_async_callback(box.kill)
        orders = {"limits": rlimits(spec.limits), "forward": routes(spec), "lazy": True}
        try:
            await channel.start({**orders, "forwarder": [*made.python, FORWARDER]})
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(channel.ready)
        except (BoxGone, TimeoutError) as error:
            raise BoxFailed("the sandbox did not start", "its agent did not answer") from error
        end = asyncio.get_running_loop().call_later(spec.limits.lifetime_seconds, box.expire)
        stack.callback(end.cancel)
        return box


def order(spec: BoxSpec, box_id: str, sockets: Path | None) -> Order:
    """Return the order for the daemon. Raises BoxFailed if the specification cannot be a container."""
    limits = spec.limits
    found = Order(
        id=box_id,
        root=str(spec.root),
        sockets=str(sockets.absolute()) if sockets else None,
        mounts=tuple(Mount(str(bind.source.absolute()), bind.target, bind.layer) for bind in spec.binds),
        hostname=spec.hostname,
        memory_bytes=limits.memory_bytes,
        pids=limits.pids,
        disk_bytes=limits.disk_bytes,
        files=limits.files,
        open_files=rlimits(limits)["RLIMIT_NOFILE"],
        cpus=limits.cpus or 1.0,
    )
    try:
        found.check()
    except Invalid as error:
        raise BoxFailed("no container can be made of that", str(error)) from error
    return found


class Held:
    """The connection to the daemon that keeps a container alive."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._connection.setblocking(False)
        self._ended: asyncio.Task[Ended | None] | None = None

    async def make(self, order: Order) -> tuple[Made, socket.socket]:
        """Order a container; return what the daemon made and the connection to its agent. Raises BoxFailed."""
        try:
            async with asyncio.timeout(START_SECONDS):
                return await self._make(order)
        except (OSError, TimeoutError, Invalid) as error:
            raise BoxFailed("the engine's daemon gives no container", repr(error)) from error

    async def _make(self, order: Order) -> tuple[Made, socket.socket]:
        loop = asyncio.get_running_loop()
        await loop.sock_recv(self._connection, MAX_MESSAGE)  # the daemon's greeting
        await loop.sock_sendall(self._connection, packet(order))
        said, descriptors = await self._receive()
        if not said:
            raise BoxFailed("the engine's daemon has ended", "start it again")
        made, failed = read(said, Made), read(said, Failed)
        if failed is not None:
            raise BoxFailed(failed.message, failed.hint)
        if made is None or not descriptors:
            raise Invalid("neither a container nor why there is none")
        return made, socket.socket(fileno=descriptors[0])

    async def _receive(self) -> tuple[bytes, list[int]]:
        """Receive one packet with its descriptors."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._connection, readable.set)
        try:
            await readable.wait()
            said, descriptors, _, _ = socket.recv_fds(self._connection, MAX_MESSAGE, 1)
            return said, descriptors
        finally:
            loop.remove_reader(self._connection)

    def tell(self, box: AgentBox) -> None:
        """Tell the box about the container's end from now on."""
        self._ended = asyncio.ensure_future(self._wait(box))

    async def _wait(self, box: AgentBox) -> Ended | None:
        """Wait for the daemon's last message. Returns None if the daemon has ended or the container was removed."""
        with contextlib.suppress(OSError, Invalid):
            ended = read(await asyncio.get_running_loop().sock_recv(self._connection, MAX_MESSAGE), Ended)
            if ended is not None:
                box.out_of_memory = box.out_of_memory or ended.out_of_memory
                return ended
        box.gone = box.gone or BoxKilled("the engine's daemon has ended")
        await box.kill()
        return None

    async def by_signal(self) -> bool:
        """Return whether a signal ended the container.

        Nobody in the container can signal its first process, the agent. Also true if the daemon has ended, because the
        container ends with it.
        """
        if self._ended is None:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ENDED_SECONDS):
                ended = await asyncio.shield(self._ended)
                return ended is None or ended.status > 128
        return True

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    async def removed(self) -> None:
        """End the container and return once nothing of it is left."""
        self.end()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(REMOVE_SECONDS):
                if self._ended is not None:
                    await self._ended
                while await loop.sock_recv(self._connection, MAX_MESSAGE):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            self._connection.close()


class Memory:
    """What a container uses. The last counts of out-of-memory kills stay known after its end."""

    def __init__(self, group: KernelGroup) -> None:
        self._group = group
        self._kills = self._host_kills = 0

    def stats(self) -> Stats:
        now = self._group.stats()
        self._kills, self._host_kills = max(self._kills, now.oom_kills), max(self._host_kills, now.host_kills)
        return replace(now, oom_kills=self._kills, host_kills=self._host_kills)
