"""Training runs with real boxes on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.hub import FakeHub

BARELY_WARM = ("--steps", "60", "--hinted", "0")  # answers in letters, which is all that most of these tests need
trainings_module = pytest.importorskip("tests.workers.training.runs.trainings")


@pytest.fixture
async def trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    venv = trainings_module.installed()

    async def ready(*_: object, **__: object) -> Path:
        return Path(venv)

    monkeypatch.setattr("workers.training.coordinator.sources.ensure_environment", ready)
    async with FakeHub(lease_seconds=30) as hub:
        yield trainings_module.Trainings(hub, tmp_path, trainings_module.tiny_model(*BARELY_WARM))
