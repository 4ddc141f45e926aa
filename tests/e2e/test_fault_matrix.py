"""Parts of a production installation fail in the middle of its work: every run ends right, nothing is lost or doubled.

Each fault begins while an evaluation runs and a pushed version is being built, and is lifted again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.demo.processes import Role, kill
from tests.e2e import reversing
from tests.e2e.breakable import Breakable, breakable_production
from tests.e2e.fault_work import Work
from tests.e2e.stack import wait_until
from tests.fakes.faulty_link import FaultyLink, Way
from tests.fakes.postgres_server import programs

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.verifiers,
    pytest.mark.sandbox,
    pytest.mark.skipif(programs() is None, reason="Postgres is not installed here"),
]
FIVE_MINUTES_S = 60.0  # as against leases and patience of a fifth of their defaults
Fault = Callable[[Breakable], None]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Breakable]:
    with breakable_production(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module")
def environment(site: Breakable) -> str:
    return reversing.push_reverse_text(site)


def killing(role: Role) -> Fault:
    def strike(site: Breakable) -> None:
        wait_until(lambda: bool(kill(site.pids(role)[:1])), 60, lambda: f"there is no {role}", 0.1)
        if role is not Role.EVAL_RUN:  # its worker makes another child
            site.revive()

    return strike


def kill_redis(site: Breakable) -> None:
    site.redis.kill()
    time.sleep(8)
    site.redis.start()


def restart_postgres(site: Breakable) -> None:
    site.databases.primary.stop()
    time.sleep(5)
    site.databases.primary.start()


def kill_postgres(site: Breakable) -> None:
    site.databases.primary.kill()
    time.sleep(5)
    site.databases.primary.start()


def fail_over(site: Breakable) -> None:
    site.databases.fail_over()
    time.sleep(5)
    site.databases.rebuild_replica()


def breaking(way: Way, seconds: float, links: Callable[[Breakable], tuple[FaultyLink, ...]]) -> Fault:
    def strike(site: Breakable) -> None:
        for link in links(site):
            link.way = way
        time.sleep(seconds)
        for link in links(site):
            link.way = Way.OPEN

    return strike


def storage(site: Breakable) -> tuple[FaultyLink, ...]:
    return site.links.s3, site.links.public_s3


def workers(site: Breakable) -> tuple[FaultyLink, ...]:
    return site.links.of_workers


FAULTS: dict[str, Fault] = {
    "hub killed": killing(Role.WEB),
    "sweeper killed": killing(Role.SWEEPER),
    "Celery worker killed": killing(Role.WORKER),
    "pool child killed": killing(Role.EVAL_RUN),
    "Redis killed": kill_redis,
    "Postgres restarted": restart_postgres,
    "Postgres killed": kill_postgres,
    "Postgres failed over": fail_over,
    "S3 answers 500": breaking(Way.FAILING, 15, storage),
    "S3 is slow": breaking(Way.SLOW, 20, storage),
    "S3 is away": breaking(Way.CLOSED, 15, storage),
    "no network for seconds": breaking(Way.SILENT, 4, workers),
    "no network for five minutes": breaking(Way.SILENT, FIVE_MINUTES_S, workers),
    "no way to the hub for five minutes": breaking(Way.CLOSED, FIVE_MINUTES_S, lambda site: (site.links.hub,)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_middle_costs_nothing(site: Breakable, environment: str, tmp_path: Path, name: str) -> None:
    work = Work.begin(site, environment, tmp_path)
    built = work.push()
    FAULTS[name](site)
    work.check(tmp_path, built, work.push())
