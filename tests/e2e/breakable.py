"""The production shape with everything that may fail in a test's own hands: Postgres with a replica, Redis, and the
ways to the hub, to Redis and to S3. Times are a fifth of the defaults: a lease of 6 s for 30, patience of 36 s for 180.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.caches import worker_cache
from tests.e2e.endpoints import EndpointThread
from tests.e2e.production import BUCKET, Production
from tests.e2e.stack import free_port
from tests.fakes.faulty_link import FaultyLink
from tests.fakes.postgres_server import DATABASE, USER, PostgresServer, server_folder
from tests.fakes.redis_server import RedisServer
from tests.fakes.round_robin import RoundRobin
from tests.fakes.s3_server import CREDENTIALS, s3_server

FIFTH = {"HUB_LEASE_SECONDS": "6", "WORKER_HUB_PATIENCE_S": "36"}


@dataclass
class Databases:
    """A primary, and a replica that has whatever was committed."""

    primary: PostgresServer
    replica: PostgresServer

    @property
    def url(self) -> str:
        """As an operator writes it: both, whichever takes writes."""
        return f"postgresql://{USER}@{self.primary.host},{self.replica.host}/{DATABASE}"

    def start(self) -> None:
        """Both."""
        self.primary.create()
        self.replica.follow(self.primary)
        self.primary.require_replica()

    def fail_over(self) -> None:
        """The primary dies, the replica takes its place."""
        self.primary.kill()
        self.replica.promote()
        self.primary, self.replica = self.replica, self.primary

    def rebuild_replica(self) -> None:
        """The dead server comes back as a copy of the new primary."""
        self.replica.follow(self.primary)
        self.primary.require_replica()


@dataclass(frozen=True)
class Links:
    """The ways that may be broken."""

    hub: FaultyLink  # from workers
    s3: FaultyLink  # from hubs
    public_s3: FaultyLink  # from workers and users
    broker: FaultyLink  # from workers

    @property
    def of_workers(self) -> tuple[FaultyLink, ...]:
        """All that the workers' hosts reach."""
        return self.hub, self.public_s3, self.broker


@dataclass
class Breakable(Production):
    """Made by `breakable_production`."""

    databases: Databases = field(init=False)
    redis: RedisServer = field(init=False)
    links: Links = field(init=False)
    storage_url: str = ""  # past the links

    @property
    def log(self) -> Path:
        """Not on the hub's disk, which may be full."""
        return self.data.with_suffix(".log")


@contextmanager
def breakable_production(
    folder: Path,
    *,
    variables: Mapping[str, Mapping[str, str]] | None = None,
    worker_data: Sequence[Path] = (),
    **settings: str,
) -> Iterator[Breakable]:
    """Two hubs, two workers, a sweeper; nothing of it is left afterwards.

    variables: by process (`hub-0`, `sweeper`, `worker-1`). worker_data: of the first workers, in place of caches.
    settings: HUB_* and WORKER_* besides.
    """
    with ExitStack() as stack:
        databases = stack.enter_context(own_databases())
        redis = stack.enter_context(RedisServer(folder / "redis"))
        storage = stack.enter_context(s3_server(BUCKET))
        caches = [*worker_data, *(stack.enter_context(worker_cache()) for _ in range(2 - len(worker_data)))]
        hub_ports = (free_port(), free_port())
        proxy = stack.enter_context(RoundRobin(hub_ports, free_port()))
        s3_port = int(storage.rpartition(":")[2])
        targets = (proxy.port, s3_port, s3_port, redis.port)
        links = Links(*(stack.enter_context(FaultyLink(target, free_port())) for target in targets))
        settings = {
            **CREDENTIALS,
            **FIFTH,
            "HUB_DATABASE_URL": databases.url,
            "HUB_DATABASE_POOL": "4",
            "HUB_BROKER_URL": redis.url,
            "HUB_WORKER_BROKER_URL": redis.url.replace(str(redis.port), str(links.broker.port)),
            "HUB_STORAGE": "s3",
            "HUB_S3_BUCKET": BUCKET,
            "HUB_S3_ENDPOINT_URL": address(links.s3),
            "HUB_S3_PUBLIC_ENDPOINT_URL": address(links.public_s3),
            "HUB_SECRET_KEY": "breakable-test-" * 4,
            "WORKER_SLOTS": json.dumps({"build": 1, "eval": 1}),
            **settings,
        }
        endpoints = EndpointThread()
        running = Breakable(folder / "hub", proxy.port, settings, endpoints)
        running.hub_ports, running.caches, running.worker_hub_url = hub_ports, tuple(caches), address(links.hub)
        running.variables = variables or {}
        running.databases, running.redis, running.links, running.storage_url = databases, redis, links, storage
        try:
            running.start()
            yield running
        finally:
            left = running.stop()
            endpoints.close()
        assert not left, f"processes outlived their hub: {left}"


@contextmanager
def own_databases() -> Iterator[Databases]:
    """Both running."""
    with server_folder() as folder:
        databases = Databases(PostgresServer(folder), PostgresServer(folder))
        try:
            databases.start()
            yield databases
        finally:
            for server in (databases.primary, databases.replica):
                server.kill()


def address(link: FaultyLink) -> str:
    """As http:// has it."""
    return f"http://127.0.0.1:{link.port}"
