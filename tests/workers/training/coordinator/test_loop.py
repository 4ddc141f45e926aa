"""How many rollouts are sampled at once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.training.config import TrainingConfig

from tests.workers.training.coordinator.groups import record, turn
from workers.training.coordinator.loop import Coordinator
from workers.training.coordinator.plan import RolloutRequest
from workers.training.journal.reader import JournalReader
from workers.training.learner.directory.run_dir import RunDir


@dataclass
class Counting:
    """An environment that notes how many rollouts it was asked for at once."""

    now: int = 0
    most: int = 0
    groups: list[str] = field(default_factory=list)

    def size(self, split: str) -> int:
        return 100

    async def run(self, request: RolloutRequest) -> list[RolloutRecord]:
        self.now += request.n
        self.most = max(self.most, self.now)
        self.groups.append(request.name)
        await asyncio.sleep(0.01)
        self.now -= request.n
        return [record(request.example, n, float(n % 2), turn(0, [1, 2], [3, 4])) for n in range(request.n)]


class Weights:
    """The first ones; there are no others."""

    version = 0


async def first_batch(root: Path, **config: Any) -> Counting:
    """The environment of a run after its first batch."""
    run_dir = RunDir(root / "run")
    run_dir.base.mkdir(parents=True)
    (run_dir.base / "config.json").write_text(json.dumps({"vocab_size": 64}))
    base = {"model": "m", "env": [{"id": "a/a"}], "batch_size": 16, "rollouts_per_example": 2}
    parsed, source = TrainingConfig.model_validate(base | config), Counting()

    async def ignored(step: int) -> None:
        raise AssertionError(step)

    made = Coordinator(parsed, run_dir, {"a": source}, {}, Weights(), ignored, lambda _: None)  # type: ignore[arg-type, dict-item]
    run = asyncio.create_task(made.run())
    while not JournalReader(run_dir.journal).steps():
        await asyncio.wait([run], timeout=0.01)
        assert not run.done(), run.exception()
    run.cancel()
    await asyncio.wait([run])
    return source


async def test_a_synchronous_run_keeps_to_max_inflight_rollouts_too(tmp_path: Path) -> None:
    source = await first_batch(tmp_path, max_inflight_rollouts=4, trainer={"max_off_policy": 0})
    assert (source.most, source.groups) == (4, [f"t{number}" for number in range(8)])


async def test_without_a_limit_a_synchronous_run_samples_its_batch_at_once(tmp_path: Path) -> None:
    source = await first_batch(tmp_path, trainer={"max_off_policy": 0})
    assert (source.most, len(source.groups)) == (16, 8)
