"""The clock of a host jumps by an hour while runs go on, and back again: no run waits for that hour."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.demo.processes import Role, kill
from tests.e2e import reversing
from tests.e2e.breakable import Breakable, breakable_production
from tests.e2e.fault_work import Work
from tests.e2e.stack import wait_until
from tests.fakes.clock import COMPILER, Clock
from tests.fakes.postgres_server import programs

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.verifiers,
    pytest.mark.sandbox,
    pytest.mark.skipif(programs() is None or COMPILER is None, reason="needs Postgres and a C compiler"),
]
HOUR = 3600
HOSTS = {
    "the hub's host": ("hub-0", "hub-1", "sweeper"),
    "one of two hubs": ("hub-1",),
    "workers": ("worker-0", "worker-1"),
}


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Clock]:
    folder = tmp_path_factory.mktemp("clocks")
    return {name: Clock(folder, name) for names in HOSTS.values() for name in names}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, clocks: dict[str, Clock]) -> Iterator[Breakable]:
    variables = {name: clock.variables for name, clock in clocks.items()}
    with breakable_production(tmp_path_factory.mktemp("site"), variables=variables) as running:
        yield running


@pytest.fixture(scope="module")
def environment(site: Breakable) -> str:
    return reversing.push_reverse_text(site)


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
@pytest.mark.parametrize("host", HOSTS)
def test_a_clock_that_jumps_delays_nothing(
    site: Breakable, environment: str, clocks: dict[str, Clock], tmp_path: Path, host: str, seconds: int
) -> None:
    work = Work.begin(site, environment, tmp_path)
    set_wrong(clocks, host, seconds)
    built = work.push()
    wait_until(lambda: bool(kill(site.pids(Role.WORKER)[:1])), 60, lambda: "there is no worker", 0.1)
    site.revive()
    work.await_stored(more=40)
    set_wrong(clocks, host, 0)
    began = time.monotonic()
    work.check(tmp_path, built, work.push())
    assert time.monotonic() - began < HOUR / 6


def set_wrong(clocks: dict[str, Clock], host: str, seconds: int) -> None:
    for name in HOSTS[host]:
        clocks[name].set_wrong(seconds)
