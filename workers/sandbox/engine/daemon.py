"""Serves workers: each connection to the daemon is one container's lifetime.

Its start options say who may connect and which folders containers may be shown. A worker's message sets the fields of a
form and can do nothing else.
"""

import asyncio
import contextlib
import os
import py_compile
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import agent_python
from ..cgroups import Tree, remove_cgroup
from ..errors import BoxFailed, SandboxError
from ..identity import Identity
from ..seccomp_profile import write_profile
from .container import IN_BOX, specification
from .files import CHANNEL, Refused, lay_out, take_away
from .host import cgroup_parent, groups_of, own_identity, remove_groups
from .peers import peer, process_end, send
from .podman import Podman, State
from .wire import MAX_MESSAGE, Ended, Failed, Hello, Invalid, Made, Order, engine_socket, packet, read

ORDER_SECONDS, AGENT_SECONDS, END_SECONDS = 10.0, 20.0, 5.0
MOST_CONNECTIONS = 4096
ONCE = py_compile.PycInvalidationMode.UNCHECKED_HASH
PROGRAMS = Path("/usr")  # the host's, readable by all its users
IDENTITY = "rootful, one user namespace and uid per container"


@dataclass(frozen=True)
class Options:
    """The daemon's options.

    `root` is the daemon's own folder. Everything that containers see lies below one of the folders in `show`, except
    the host's programs. `user` may connect, as well as the daemon's own user.
    """

    root: Path
    socket: Path
    show: tuple[Path, ...]
    user: int
    runtime: str | None = None


class Daemon:
    def __init__(self, options: Options, tree: Tree, podman: Podman, python: Path, threads: ThreadPoolExecutor) -> None:
        self._options = options
        self._shown = (PROGRAMS, *options.show)
        self._tree = tree
        self._parent = cgroup_parent(tree, options.root)
        self._podman = podman
        self._python = python
        self._threads = threads
        self._boxes = options.root / "boxes"
        self._seccomp = options.root / "seccomp.json"
        self._starting: dict[str, asyncio.Task[None]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        runtime = options.runtime or "podman's runtime"
        self.hello = Hello(
            engine=f"podman {podman.version}",
            identity=IDENTITY,
            limits=f"cgroups: {tree.driver} ({runtime})",
            limits_cpu=tree.has_cpu,
        )

    def prepare(self) -> None:
        """Make the folders and files that all containers share."""
        self._boxes.mkdir(mode=0o711)
        write_profile(self._seccomp)
        programs = self._options.root / "programs"
        for folder in (programs, programs / "python", programs / CHANNEL):
            folder.mkdir(mode=0o755)
        for name in ("agent.py", "forwarder.py"):
            compiled = programs / f"{name}c"  # compiled once, or every start of a box would compile it
            py_compile.compile(
                str(Path(__file__).parents[1] / name), str(compiled), doraise=True, invalidation_mode=ONCE
            )
            compiled.chmod(0o444)

    @property
    def _programs(self) -> Mapping[str, Path]:
        return {IN_BOX: self._options.root / "programs", agent_python.IN_BOX: self._python}

    async def sweep(self) -> None:
        """Remove the containers that a killed daemon left; its mounts are gone with them.

        One that cannot be removed runs nothing any more: it stays, and is tried again at the next start.
        """
        await asyncio.get_running_loop().run_in_executor(self._threads, self.remove_groups)
        for name in await self._podman.names():
            try:
                await self._podman.remove(name)
            except BoxFailed as error:
                sys.stderr.write(f"the container {name} of an earlier daemon stays: {error}\n")

    def remove_groups(self) -> None:
        remove_groups(self._tree, self._parent)

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            connection.setblocking(False)
            if len(self.tasks) >= MOST_CONNECTIONS or not self._may_connect(connection):
                connection.close()
                continue
            task = asyncio.create_task(self._serve(connection))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def _may_connect(self, connection: socket.socket) -> bool:
        return peer(connection).uid in (self._options.user, os.geteuid())

    async def _serve(self, connection: socket.socket) -> None:
        with connection:
            send(connection, self.hello)
            try:
                order = await self._ordered(connection)
                if order is not None:
                    await self._hold(order, connection)
            except Refused as error:
                send(connection, Failed(True, error.message, error.hint))
            except SandboxError as error:
                send(connection, Failed(False, error.message[:1000], error.hint[:1000]))
            except (OSError, TimeoutError) as error:
                send(connection, Failed(False, "the engine's daemon failed", repr(error)[:1000]))

    async def _ordered(self, connection: socket.socket) -> Order | None:
        """Return the worker's order, or None if it only wanted the greeting. Raises Refused."""
        async with asyncio.timeout(ORDER_SECONDS):
            said = await asyncio.get_running_loop().sock_recv(connection, MAX_MESSAGE)
        if not said:
            return None
        try:
            order = read(said, Order)
        except Invalid as error:
            raise Refused(str(error)[:500]) from error
        if order is None:
            raise Refused("an order was expected")
        return order

    async def _hold(self, order: Order, connection: socket.socket) -> None:
        """Make the container and keep it until the worker hangs up."""
        box = self._boxes / order.id
        try:
            box.mkdir(mode=0o711)
        except FileExistsError as error:
            raise Refused(f"there is a container {order.id}") from error
        groups: list[Path] = []
        try:
            made, agent, pid = await self._make(order, box / "stage", peer(connection).uid)
            groups = [Path(group) for group in made.cgroups.values()]
            with agent:
                ended = process_end(pid)
                socket.send_fds(connection, [packet(made)], [agent.fileno()])
            hung_up = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(connection, 1))
            try:
                waited: list[asyncio.Future[Any]] = [ended, hung_up]
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if not hung_up.done():
                    state = await self._last_state(order.id)
                    send(connection, Ended(status=state.status & 0xFF, out_of_memory=state.out_of_memory))
                    await hung_up
            finally:
                hung_up.cancel()
                ended.cancel()
        finally:
            await asyncio.shield(self._remove(order.id, box, groups))

    async def _make(self, order: Order, stage: Path, worker: int) -> tuple[Made, socket.socket, int]:
        """Make a container; return the answer, the agent's connection, and the pid of the container's first process."""
        loop = asyncio.get_running_loop()
        identity = own_identity()
        stage.mkdir()
        files = await loop.run_in_executor(
            self._threads, lay_out, stage, order, identity, self._shown, worker, self._programs
        )
        python = tuple(agent_python.command(self._python))
        with engine_socket() as listener:
            path = files.channel / "agent.sock"
            listener.bind(str(path))
            path.chmod(0o666)  # its folder belongs to the box alone
            listener.listen(1)
            listener.setblocking(False)
            await self._podman.create(
                specification(
                    order,
                    files,
                    identity,
                    [*python, f"{IN_BOX}/agent.pyc", f"{IN_BOX}/{CHANNEL}/agent.sock"],
                    seccomp=self._seccomp,
                    cgroup_parent=self._parent,
                )
            )
            agent = await self._started(order.id, listener, identity)
        try:
            pid = peer(agent).pid
            return Made(python, self._tree.driver, groups_of(pid, self._tree, self._parent)), agent, pid
        except BaseException:
            agent.close()
            raise

    async def _started(self, name: str, listener: socket.socket, identity: Identity) -> socket.socket:
        """Start the container and return the agent's connection.

        The agent may connect before the engine has recorded that it started the container.
        """
        starting = self._starting[name] = asyncio.create_task(self._podman.start(name))
        accepting = asyncio.create_task(self._agent(listener, name, identity))
        try:
            await asyncio.wait([starting, accepting], return_when=asyncio.FIRST_COMPLETED)
            if not accepting.done():
                await asyncio.shield(starting)
            return await accepting
        except BaseException:
            accepting.cancel()
            raise

    async def _agent(self, listener: socket.socket, name: str, identity: Identity) -> socket.socket:
        """Wait for the agent's connection and check who connected. Raises BoxFailed.

        No other code runs in the container yet.
        """
        try:
            async with asyncio.timeout(AGENT_SECONDS):
                agent, _ = await asyncio.get_running_loop().sock_accept(listener)
        except TimeoutError as error:
            state = await self._podman.state(name)
            raise BoxFailed("the sandbox did not start", f"its agent did not answer; status {state.status}") from error
        if peer(agent).uid != identity.uid:
            agent.close()
            raise BoxFailed("the sandbox did not start", "somebody else answered for its agent")
        return agent

    async def _last_state(self, name: str) -> State:
        """Return the container's state once the engine has noticed its end."""
        for _ in range(int(END_SECONDS / 0.05)):
            state = await self._podman.state(name)
            if not state.running:
                return state
            await asyncio.sleep(0.05)
        return state

    async def _remove(self, name: str, box: Path, groups: Sequence[Path]) -> None:
        starting = self._starting.pop(name, None)
        if starting is not None:
            await asyncio.wait([starting])
        with contextlib.suppress(BoxFailed):
            await self._podman.remove(name)
        await asyncio.get_running_loop().run_in_executor(self._threads, clear, box, groups)


def clear(box: Path, groups: Iterable[Path]) -> None:
    """Remove a container's groups and files, also those that the engine leaves or would only remove later."""
    for group in groups:
        remove_cgroup(group)
    take_away(box / "stage")
    shutil.rmtree(box, ignore_errors=True)
