"""The disk of the hub or of a worker is full for a while: what it cannot keep is refused with a hint, and runs end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from envhub.protocol.registry.packages import VersionState

from tests.e2e import reversing
from tests.e2e.breakable import Breakable, breakable_production
from tests.e2e.caches import worker_cache
from tests.e2e.fault_work import Work
from tests.fakes.postgres_server import programs
from tests.fakes.small_disk import SmallDisk, can_mount, small_disk

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.verifiers,
    pytest.mark.sandbox,
    pytest.mark.skipif(programs() is None or not can_mount(), reason="needs Postgres, and root to mount a disk"),
]
FULL_S = 20


@dataclass(frozen=True)
class Disks:
    hub: SmallDisk
    worker: SmallDisk  # of the first of two


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Disks]]:
    folder = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        shared = stack.enter_context(worker_cache())
        disks = Disks(
            stack.enter_context(small_disk(folder / "hub", 64)),
            stack.enter_context(small_disk(folder / "worker", 2048)),
        )
        for name in ("venvs", "images"):  # environments come from elsewhere: making them takes minutes
            (disks.worker.path / name).symlink_to((shared / name).resolve())
        yield folder, disks


@pytest.fixture(scope="module")
def site(place: tuple[Path, Disks]) -> Iterator[Breakable]:
    folder, disks = place
    variables = {f"hub-{number}": {"TMPDIR": str(disks.hub.path)} for number in range(2)}
    variables["worker-0"] = {"TMPDIR": str(disks.worker.path)}
    with breakable_production(folder, variables=variables, worker_data=[disks.worker.path]) as running:
        yield running


@pytest.fixture(scope="module")
def environment(site: Breakable) -> str:
    return reversing.push_reverse_text(site)


def test_a_full_disk_of_the_hub_refuses_what_it_cannot_hold_and_loses_nothing(
    site: Breakable, environment: str, place: tuple[Path, Disks], tmp_path: Path
) -> None:
    work = Work.begin(site, environment, tmp_path)
    disk = place[1].hub
    disk.fill()
    refused = site.cli("push", str(work.package), "--bump", "patch", "--no-wait", code=None)
    time.sleep(FULL_S)
    disk.empty()
    assert refused.code == 0 or "disk is full" in refused.err, refused
    work.check(tmp_path, work.push())


def test_a_full_disk_of_a_worker_leaves_its_runs_to_the_other(
    site: Breakable, environment: str, place: tuple[Path, Disks], tmp_path: Path
) -> None:
    disk = place[1].worker
    work = Work.begin(site, environment, tmp_path)
    disk.fill()
    built = work.push()
    view = site.finished(work.evaluation.id)
    reversing.check_complete(site, view, tmp_path)
    assert site.wait_ready(built).state is VersionState.READY
    disk.empty()
    work.check(tmp_path, work.push())
