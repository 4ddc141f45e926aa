"""Training runs on a cluster of three hosts; the first is the worker's and has the head."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
from tests.fakes.hub import FakeHub
from tests.workers.training.cluster.nodes import CONFIG, Nodes, started
from tests.workers.training.runs import trainings as making
from tests.workers.training.runs.trainings import BARELY_WARM
from workers.cluster.access import ClusterAccess, write_access
from workers.settings import WorkerEnvironment
from workers.venvs.environment import environment_key


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with started(tmp_path_factory.mktemp("cluster"), 3) as made:
        yield made


@pytest.fixture
async def trainings(tmp_path: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    venv = making.installed()

    async def ready(*_: object, **__: object) -> Path:
        return Path(venv)

    monkeypatch.setattr("workers.training.coordinator.sources.ensure_environment", ready)
    async with FakeHub(lease_seconds=30) as hub:
        made = making.Trainings(hub, tmp_path, making.tiny_model(*BARELY_WARM))
        settings = WorkerEnvironment(data=tmp_path)
        write_access(settings, ClusterAccess(address=nodes.address))
        for number in range(len(nodes.others) + 1):  # what the patch above is for other processes
            kept = nodes.data(number) / "venvs" / "venvs"
            kept.mkdir(parents=True, exist_ok=True)
            lock = made.payload(**CONFIG).environments[0].lock
            if not (kept / environment_key(lock)).exists():
                (kept / environment_key(lock)).symlink_to(venv)
        yield made
