"""Sandboxes for a run's environments: each box gets the service on its gateway, and each sandbox a gateway of its own.

  async with run_sandboxes(job, sandbox, allow=...) as sandboxes:       # once per run
    async with sandboxes.for_box(...) as beside: ...                  # once per box

A sandbox reaches one address, its gateway, with the package index, the tunnels that the environment in the box has
opened to its own ports, and the model of the rollout that it belongs to.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from urllib.parse import unquote, urlencode

from aiohttp import web
from envhub import errors
from envhub.protocol.registry.files import RepositorySource

from workers.broker.broker import Broker
from workers.broker.docker import SOCKET as DOCKER_SOCKET
from workers.broker.docker import serve_docker
from workers.broker.home import Home
from workers.broker.interface import Session, Wish
from workers.broker.life import Host
from workers.broker.limits import MIB, BrokerLimits
from workers.broker.prime import PREFIX, TUNNEL_PATH, BoxTunnels, prime_routes, tunnel_gateway
from workers.broker.relay import Route, Streams, relay
from workers.broker.room import Room
from workers.broker.surroundings import Around
from workers.broker.tickets import Party, Tickets
from workers.images.dockerfile.images import DockerfileImages
from workers.images.dockerfile.task_folders import TaskFolder, task_folders
from workers.images.interface import Images
from workers.images.lasting import lasting
from workers.images.sources import RunImages
from workers.rollouts.image_builds import BuildBoxes
from workers.rollouts.interceptor.data import open_data
from workers.rollouts.live_sandboxes import tell_of_sandboxes
from workers.rollouts.outside.files import NotHere
from workers.rollouts.outside.repositories import Repositories, WithRepositories
from workers.rollouts.outside.server import OutsideServer
from workers.rollouts.package_stores import GATEWAY, SANDBOX_INSTALLERS, PackageStores, open_stores
from workers.runs.execution import Job
from workers.runs.hub import RunClient
from workers.sandbox import Destination, Network, Sandbox, socket_folder
from workers.settings import WorkerEnvironment
from workers.venvs.assembly import base_of

SANDBOXES_A_GIB = 4


@dataclass(frozen=True)
class BoxSandboxes:
    """Sandbox service for one box. `home` needs to know it; `applications` go on its gateway."""

    home: Home
    applications: Mapping[str, web.Application]


@dataclass(frozen=True)
class RunSandboxes:
    """Sandboxes of one run.

    `allow` lists the hosts that boxes and sandboxes may reach. `folders` contain Dockerfiles, whose images are built
    by the broker's images.
    """

    broker: Broker
    allow: Sequence[str]
    stores: PackageStores
    repositories: Repositories  # boxes use them too
    images: Images
    folders: Sequence[TaskFolder] = ()

    @asynccontextmanager
    async def for_box(self, gateway: Path, outside: OutsideServer | None) -> AsyncIterator[BoxSandboxes]:
        """Serve one box. `gateway` is its socket, with the models behind it.

        `outside` answers sandboxes as it does the box, extended by the package stores.
        """
        home = Home()
        tunnels = BoxTunnels(home)

        @asynccontextmanager
        async def around(wish: Wish, rollout: str) -> AsyncIterator[Around]:
            routes = {TUNNEL_PATH.strip("/"): Route(tunnels.reach, 2, upgrades=True), **self.stores.routes()}
            models = {}
            if rollout:
                routes["r"] = Route(lambda rest: own_model(gateway, rest, rollout), 0)
                models = {"OPENAI_BASE_URL": f"{GATEWAY}/r/{rollout}/v1", "OPENAI_API_KEY": "box"}
            with socket_folder(self.stores.sockets) as folder:
                async with relay(folder / "gateway.sock", routes):
                    allow = granted(self.allow, wish.allow_hosts)
                    yield Around(
                        sockets=folder,
                        network="allow-list" if allow else "gateway",
                        allow=set(map(Destination.of, allow)),
                        outside=answers,
                        env={**SANDBOX_INSTALLERS, **models},
                    )

        async with (
            self.stores.extend_outside(outside, real=bool(self.allow)) as answers,
            self.broker.session(around) as session,
        ):
            applications = {
                PREFIX: prime_routes(session, run_allows=self.allow, tunnels=tunnels),
                TUNNEL_PATH.rstrip("/"): tunnel_gateway(tunnels),
            }
            async with serve_docker(gateway.with_name(DOCKER_SOCKET), session, home):
                yield BoxSandboxes(home, applications)

    @asynccontextmanager
    async def for_user(
        self,
        outside: OutsideServer | None = None,
        routes: Mapping[str, Route] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Session]:
        """Open a session for a user outside any box: package indexes, what `outside` has, and allowed hosts.

        `routes` are added to the gateway, and `variables` tell where they are.
        """
        own = {**self.stores.routes(), **(routes or {})}
        env = {**SANDBOX_INSTALLERS, **(variables or {})}

        @asynccontextmanager
        async def around(wish: Wish, rollout: str) -> AsyncIterator[Around]:
            with socket_folder(self.stores.sockets) as folder:
                async with relay(folder / "gateway.sock", own):
                    allow = set(map(Destination.of, granted(self.allow, wish.allow_hosts)))
                    network: Network = "allow-list" if allow else "gateway"
                    yield Around(sockets=folder, network=network, allow=allow, outside=answers, env=env)

        async with (
            self.stores.extend_outside(outside, real=bool(self.allow)) as answers,
            self.broker.session(around) as session,
        ):
            yield session


async def own_model(gateway: Path, rest: str, rollout: str) -> Streams:
    """Connect a sandbox to the model of its own rollout, and refuse any other path."""
    first, *others = rest.partition("?")[0].split("/")
    if first != rollout or any(unquote(part) in (".", "..") for part in others):
        raise LookupError("no rollout of this sandbox has this address")
    return await asyncio.open_unix_connection(gateway)


def granted(run: Sequence[str], wish: Sequence[str] | None) -> tuple[str, ...]:
    """Return which of the run's hosts a sandbox reaches: all, unless it wishes for fewer."""
    return tuple(run) if wish is None else tuple(entry for entry in run if entry in wish or host_of(entry) in wish)


def host_of(entry: str) -> str:
    """Return the host of "host:port" or "host"."""
    return entry.rpartition(":")[0] or entry


@asynccontextmanager
async def run_sandboxes(
    job: Job,
    sandbox: Sandbox,
    *,
    allow: Sequence[str] = (),
    venv: Path | None = None,
    lacking: dict[tuple[str, str], None] | None = None,
    shown: bool = True,
    within: BrokerLimits | None = None,
) -> AsyncIterator[RunSandboxes]:
    """Open the sandboxes of a run, with images from the hub.

    `venv`, the installed environment, may contain Dockerfiles; requests of their steps without an answer are added
    to `lacking`. `shown`: the run's pages show live sandboxes. `within` replaces the usual limits of a run.
    """
    async with AsyncExitStack() as stack:
        run_images = RunImages(job.run, job.settings)
        stores = await stack.enter_async_context(open_stores(job.settings))
        folders = await asyncio.to_thread(task_folders, places_of(venv)) if venv is not None else []
        images: Images = run_images
        if folders:
            data = await stack.enter_async_context(open_data(job.run))
            files = WithRepositories(repositories_of(job, sandbox), data.files())
            boxes = BuildBoxes(job.settings, stores, OutsideServer(files, job.lease.log, lacking), allow)
            images = DockerfileImages(run_images, folders, boxes.bench(job.lease.log), salt=job.claim.owner)
        images = await stack.enter_async_context(lasting(images))
        sandboxes = open_sandboxes(job, sandbox, images, stores, allow=allow, folders=folders, within=within)
        if shown:
            await stack.enter_async_context(tell_of_sandboxes(job, sandboxes.broker))
        yield sandboxes


async def repository_source(run: RunClient, url: str) -> str:
    """Return where the hub allows a repository to be fetched from. Raises NotHere."""
    try:
        found = await run.get(f"/repositories/source?{urlencode({'url': url})}", RepositorySource)
    except errors.EnvhubError as error:
        raise NotHere(f"{error.message}; {error.hint}" if error.hint else error.message) from error
    return found.url


def places_of(venv: Path) -> list[Path]:
    """Return an environment and the one that it is layered on."""
    base = base_of(venv)
    return [venv, *([base] if base is not None else [])]


def open_sandboxes(
    job: Job,
    sandbox: Sandbox,
    images: Images,
    stores: PackageStores,
    *,
    allow: Sequence[str] = (),
    folders: Sequence[TaskFolder] = (),
    within: BrokerLimits | None = None,
) -> RunSandboxes:
    """Make a broker with everything that its sandboxes reach."""
    host = Host(sandbox, images, tickets(job), within or limits(job.settings), masked=job.lease.masked)
    return RunSandboxes(Broker(host), allow, stores, repositories_of(job, sandbox), images, folders)


def repositories_of(job: Job, sandbox: Sandbox) -> Repositories:
    """Return the git repositories for the run's boxes."""
    source = partial(repository_source, job.run)
    return Repositories(job.settings.folder("sandbox-repositories"), source, sandbox)


def tickets(job: Job) -> Tickets:
    """Return the tickets that limit what sandboxes on this host ask for together, over all of its runs."""
    settings, party = job.settings, Party(job.claim.owner, job.claim.run_id)
    own = room_of(settings.sandboxes_of_a_run_memory_mb, settings.sandboxes_of_a_run_cpus)
    return Tickets(settings.folder("sandbox-tickets"), host_room(settings), party, own)


def host_room(settings: WorkerEnvironment) -> Room:
    """Return what all sandboxes of this host may ask for together: by default, as many of the usual size as may exist.

    Most use a small part of what they ask for, so this is more than the host has. One of the largest size always fits.
    """
    number = settings.sandboxes_at_once or usual_number()
    usual = BrokerLimits()
    largest = settings.sandbox_most_memory_mb + settings.sandbox_most_disk_mb
    memory = settings.sandboxes_memory_mb or max(number * (usual.memory_mb + usual.disk_mb), largest)
    return replace(room_of(memory, settings.sandboxes_cpus), sandboxes=number)


def room_of(memory_mb: int, cpus: float) -> Room:
    """Return a limit from settings, in which 0 means none."""
    return Room(memory_mb=memory_mb or inf, cpus=cpus or inf)


def usual_number() -> int:
    """Compute the default number from the host's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(8, SANDBOXES_A_GIB * memory // (1024 * MIB))


def limits(settings: WorkerEnvironment) -> BrokerLimits:
    """Return the limits of a run's sandboxes."""
    of_a_rollout = room_of(settings.sandboxes_of_a_rollout_memory_mb, settings.sandboxes_of_a_rollout_cpus)
    return BrokerLimits(
        at_once=settings.sandboxes_of_a_run,
        of_a_rollout=replace(of_a_rollout, sandboxes=settings.sandboxes_of_a_rollout),
        most_cpus=settings.sandbox_most_cpus,
        most_memory_mb=settings.sandbox_most_memory_mb,
        most_disk_mb=settings.sandbox_most_disk_mb,
        most_lifetime_s=settings.sandbox_most_lifetime_s,
    )


__all__ = ["BoxSandboxes", "RunSandboxes", "limits", "open_sandboxes", "run_sandboxes", "tickets"]
