"""The database of HUB_DATABASE_URL, for Django. Several hosts, as libpq lists them (`host1:5432,host2:5432`), are for
failover: the hub uses the one that takes writes.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import dj_database_url

# A host that vanishes closes no connection. Seconds and milliseconds after which the kernel gives one up; the URL's own
# parameters go first. Without them a request waits a quarter of an hour for a database that has failed over long ago.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
SEVERAL = {"target_session_attrs": "read-write", "connect_timeout": 3}  # only the primary, and soon past a dead host


def parse(url: str) -> dict[str, Any]:
    """Django's DATABASES entry; each thread's connection is tested before a request uses it."""
    several = hosts_of(url)
    first = url.replace(urlsplit(url).netloc.rpartition("@")[2], several[0], 1) if len(several) > 1 else url
    found: dict[str, Any] = dict(dj_database_url.parse(first, conn_max_age=60, conn_health_checks=True))
    if not found["ENGINE"].endswith("postgresql"):
        return found
    options = {**KEEPALIVE, **(SEVERAL if len(several) > 1 else {}), **found.get("OPTIONS", {})}
    if len(several) > 1:
        names, ports = zip(*(_split(host) for host in several), strict=True)
        found |= {"HOST": ",".join(names), "PORT": ",".join(ports)}
    return {**found, "OPTIONS": options}


def hosts_of(url: str) -> list[str]:
    """`host:port` of each server that the URL names."""
    return urlsplit(url).netloc.rpartition("@")[2].split(",")


def urls_of(url: str) -> list[str]:
    """A URL with one host for each of them."""
    netloc = urlsplit(url).netloc
    return [url.replace(netloc, host, 1) for host in hosts_of(url)] if "," in netloc else [url]


def _split(host: str) -> tuple[str, str]:
    parts = urlsplit(f"//{host}")
    return parts.hostname or "", str(parts.port or 5432)
