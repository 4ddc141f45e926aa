"""An engine that never comes to serve is given up, however slowly it dies. The real process, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from workers.inference.policy_engine import PolicyEngineStart
from workers.runs.children import Children
from workers.runs.errors import RunFailed
from workers.training.coordinator.policy import VersionedPolicy
from workers.training.supervise import engine
from workers.training.supervise.engine import EngineKeeper

pytestmark = pytest.mark.torch


def nobody(base_url: str, model: str) -> NoReturn:
    raise AssertionError("it never served")


async def test_three_starts_in_a_row_that_never_served_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MEMORY_S", 0.0)  # each death is forgotten before the next, as when starts are slow
    said: list[str] = []
    (tmp_path / "children").mkdir()
    keeper = EngineKeeper(
        PolicyEngineStart(kind="torch", directory=tmp_path / "nothing", name="policy"),
        VersionedPolicy("hub/tiny", "policy", nobody, adapters=True),
        Children(tmp_path / "children"),
        tmp_path / "home",
        said.append,
        "r",
    )
    with pytest.raises(RunFailed, match="3 times in a row and never served") as caught:
        await keeper.run()
    assert caught.value.failure.code == "engine_keeps_dying"
    assert sum("Starting it anew" in line for line in said) == 2
