"""The containers of one client: each is a sandbox of its session with a main command and with execs."""

from __future__ import annotations

import asyncio
import secrets
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from workers.broker.docker.folders import Folders, folders_of
from workers.broker.docker.output import Output
from workers.broker.docker.ports import Ports, ports_of
from workers.broker.docker.running import Running
from workers.broker.docker.wishes import CreateRequest, ExecRequest, HostConfig, argv_of, variables, wish_of
from workers.broker.home import Home
from workers.broker.interface import Held, NotThere, Session
from workers.broker.refusals import Refusal
from workers.images.interface import ImageLacking
from workers.sandbox import SandboxError

CONTAINERS_KEPT, EXECS_KEPT = 256, 1000  # beyond these, the oldest that have ended are dropped
TERMINAL = (24, 80)
STOP_S = 10.0


@dataclass
class Container:
    id: str
    name: str
    asked: CreateRequest
    held: Held
    created: datetime
    folders: Folders
    ports: Ports
    main: Running = field(default_factory=Running)
    starts: int = 0

    @property
    def state(self) -> str:
        """Return the state in the Engine API's vocabulary."""
        if self.main.runs and not self.held.state.final:
            return "running"
        return "exited" if self.starts or self.held.state.final else "created"


@dataclass
class Exec:
    id: str
    container: Container
    asked: ExecRequest
    running: Running = field(default_factory=lambda: Running(Output(keep=0)))


class Engine:
    """The containers and execs of one session, whose clients run in the box of `home`."""

    def __init__(self, session: Session, home: Home) -> None:
        self._session = session
        self._home = home
        self._containers: dict[str, Container] = {}
        self._execs: dict[str, Exec] = {}
        self._removals: set[asyncio.Task[None]] = set()

    def all(self) -> list[Container]:
        """Return the containers, newest first."""
        return list(reversed(self._containers.values()))

    async def create(self, asked: CreateRequest, name: str, rollout: str) -> Container:
        """Create a container without starting it. Raises Refusal, TooMany."""
        if name and any(item.name == name for item in self._containers.values()):
            raise Refusal(409, f"Conflict. The container name {name} is already in use; remove it first")
        if len(self._containers) >= CONTAINERS_KEPT:
            over = next((item for item in self._containers.values() if item.state != "running"), None)
            if over is None:
                raise Refusal(429, f"{CONTAINERS_KEPT} containers run; remove some first")
            await self.remove(over, force=True)
        key = secrets.token_hex(32)
        name = name or f"container-{key[:12]}"
        wish, host = wish_of(asked, name), asked.host or HostConfig.model_validate({})
        folders = Folders(folders_of(host.binds or (), host.mounts or ()), self._home)
        exposed = asked.exposed if host.publish_all and asked.exposed else {}
        ports = Ports(ports_of(host.ports or {}, exposed), self._home)
        held = await self._session.create(wish, rollout=rollout)
        made = Container(key, name, asked, held, datetime.now(UTC), folders, ports)
        self._containers[key] = made
        return made

    def find(self, given: str) -> Container:
        """Find a container by its id, a prefix of its id, or its name. Raises Refusal."""
        given = given.removeprefix("/")
        if given in self._containers:
            return self._containers[given]
        found = [item for item in self._containers.values() if item.name == given]
        if not found and given:
            found = [item for item in self._containers.values() if item.id.startswith(given)]
        if len(found) != 1:
            raise Refusal(404, f"No such container: {given[:200]}")
        return found[0]

    async def start(self, container: Container) -> None:
        """Start the main command unless it is running. Raises Refusal, SandboxError."""
        if container.main.runs:
            return
        asked, held = container.asked, container.held
        await self._ready(container)
        argv = argv_of(asked.entrypoint) + argv_of(asked.command)
        if not argv_of(asked.entrypoint) and not argv_of(asked.command):
            argv = held.default_command
        if not argv:
            raise Refusal(400, "no command specified: neither the request nor the image has one")
        await container.folders.copy_in(held)
        await container.ports.publish(held)
        await self.next_main(container).start(
            held,
            argv,
            env={},
            cwd=asked.cwd,
            stdin=asked.stdin,
            terminal=TERMINAL if asked.terminal else None,
            after=partial(self._stopped, container),
        )
        container.starts += 1
        if asked.host is not None and asked.host.auto_remove:
            removal = asyncio.create_task(self._remove_later(container))
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)

    async def _stopped(self, container: Container) -> str:
        """The main command has ended. Return what clients must hear of it, or ""."""
        container.ports.close()
        return await container.folders.copy_back(container.held)

    def close(self) -> None:
        """Stop listening on published ports: a listener would keep the box's network alive."""
        for container in self._containers.values():
            container.ports.close()

    def next_main(self, container: Container) -> Running:
        """Return the main command: the running one, or one that is yet to be started."""
        if container.main.done.is_set():
            container.main = Running()
        return container.main

    async def _ready(self, container: Container) -> None:
        try:
            await container.held.ready()
        except NotThere as error:
            if isinstance(error.__cause__, ImageLacking):
                raise Refusal(404, f"No such image: {container.asked.image}: {error.message}") from error
            raise Refusal(409, f"container {container.id[:12]} has ended: {error.message}") from error

    async def _remove_later(self, container: Container) -> None:
        await container.main.done.wait()
        await asyncio.sleep(0.5)  # clients ask for its exit status after it ended
        if container.id in self._containers:
            await self.remove(container, force=True)

    async def kill(self, container: Container, number: int) -> None:
        """Send a signal to the main command. Raises Refusal."""
        process = container.main.process
        if not container.main.runs or process is None:
            raise Refusal(409, f"container {container.id} is not running")
        await process.signal(number)

    async def stop(self, container: Container, seconds: float) -> bool:
        """Stop the main command; return whether it was running. Raises SandboxError."""
        process = container.main.process
        if not container.main.runs or process is None:
            return False
        await process.signal(signal_number(container.asked.stop_signal or "SIGTERM"))
        try:
            async with asyncio.timeout(seconds):
                await container.main.done.wait()
        except TimeoutError:
            await process.signal(signal.SIGKILL)
            await container.main.done.wait()
        return True

    async def remove(self, container: Container, *, force: bool) -> None:
        """Remove a container and end its sandbox. Raises Refusal."""
        if container.state == "running" and not force:
            raise Refusal(409, f"container {container.id} is running: stop it before removal, or force it")
        if container.state == "running":
            await container.folders.copy_back(container.held)
        self._containers.pop(container.id, None)
        container.ports.close()
        for key in [key for key, item in self._execs.items() if item.container is container]:
            del self._execs[key]
        await container.held.end()
        if container.main.began is None:
            container.main.give_up()

    def new_exec(self, container: Container, asked: ExecRequest) -> Exec:
        """Create an exec without starting it. Raises Refusal."""
        if container.state != "running":
            raise Refusal(409, f"container {container.id} is not running")
        if not argv_of(asked.command):
            raise Refusal(400, "No exec command specified")
        if len(self._execs) >= EXECS_KEPT:
            over = next((key for key, item in self._execs.items() if item.running.done.is_set()), None)
            if over is None:
                raise Refusal(429, f"{EXECS_KEPT} commands run in containers; wait for some to end")
            del self._execs[over]
        made = Exec(secrets.token_hex(32), container, asked)
        self._execs[made.id] = made
        return made

    def find_exec(self, key: str) -> Exec:
        """Find an exec by its id. Raises Refusal."""
        if key not in self._execs:
            raise Refusal(404, f"No such exec instance: {key[:100]}")
        return self._execs[key]

    async def start_exec(self, made: Exec, size: tuple[int, int] | None) -> None:
        """Start an exec. If it cannot be started, the reason becomes its output and NOT_STARTED its exit status."""
        container = made.container
        try:
            await container.folders.copy_in(container.held)
            await made.running.start(
                container.held,
                argv_of(made.asked.command),
                env=variables(made.asked.env),
                cwd=made.asked.cwd or container.asked.cwd,
                stdin=made.asked.stdin,
                terminal=(size or TERMINAL) if made.asked.terminal else None,
                after=partial(container.folders.copy_back, container.held),
            )
        except SandboxError as error:
            made.running.fail(str(error))


def signal_number(given: str | int) -> int:
    """Return the number of a signal given as SIGTERM, TERM or 15. Raises Refusal."""
    text = str(given).upper()
    if text.isdigit() and 0 < int(text) < signal.NSIG:
        return int(text)
    try:
        return int(signal.Signals["SIG" + text.removeprefix("SIG")])
    except KeyError:
        raise Refusal(400, f"there is no signal {text[:50]}") from None
