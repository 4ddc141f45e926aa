"""Training runs with real boxes on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

trainings_module = pytest.importorskip("tests.workers.training.runs.trainings")


@pytest.fixture
async def trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    async with trainings_module.opened(tmp_path, monkeypatch) as opened:
        yield opened
