"""A database and a Redis database of a stack's own, when the suite runs on Postgres and Redis."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import redis
from psycopg import sql

from tests import backends

FIRST_REDIS_DATABASE = 8  # Redis has 16; a stack of each xdist worker


@contextmanager
def service_settings() -> Iterator[dict[str, str]]:
    """HUB_* variables that lead a stack to its own database and broker; none on the embedded backend."""
    if backends.BACKEND != "services":
        yield {}
        return
    with own_services("hub_e2e") as settings:
        yield settings


@contextmanager
def own_services(prefix: str) -> Iterator[dict[str, str]]:
    """HUB_* variables of a new Postgres database and an empty Redis database, which are gone afterwards."""
    name = f"{prefix}_{os.getpid()}"
    broker = urlsplit(backends.REDIS_URL)._replace(path=f"/{FIRST_REDIS_DATABASE + xdist_number() % 8}").geturl()
    with psycopg.connect(backends.DATABASE_URL, autocommit=True) as admin, redis.Redis.from_url(broker) as keys:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        keys.flushdb()
        try:
            database = urlsplit(backends.DATABASE_URL)._replace(path=f"/{name}").geturl()
            yield {"HUB_DATABASE_URL": database, "HUB_BROKER_URL": broker}
        finally:
            keys.flushdb()
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def xdist_number() -> int:
    """0, 1, ...: which of pytest-xdist's processes this is."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
