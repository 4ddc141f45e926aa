"""kill -9 of the learner between any two durable operations: the next one makes the same weights, and no line twice."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest

from tests.workers.training.learner.killing import life
from tests.workers.training.learner.making import make_run
from workers.training.learner.directory.config import CheckpointConfig, LearnerConfig, OptimiserConfig
from workers.training.learner.directory.reports import LearnerStep, read_lines
from workers.training.learner.directory.run_dir import RunDir

pytestmark = pytest.mark.torch
STEPS = 3
SETTINGS = LearnerConfig(
    mode="full",
    max_steps=STEPS,
    token_budget=64,
    optimiser=OptimiserConfig(learning_rate=1e-2),
    checkpoint=CheckpointConfig(interval=2),
)


def outcome(folder: Path) -> tuple[list[bytes], list[tuple[int, float | None]]]:
    """Final state, published weights, and the lines (without times)."""
    run = RunDir(folder)
    files = [run.checkpoint(STEPS) / name for name in ("masters.safetensors", "moments.safetensors", "state.json")]
    files += [run.version(version) / "model.safetensors" for version in range(1, STEPS + 1)]
    return [path.read_bytes() for path in files], [(x.step, x.loss) for x in read_lines(run.metrics, LearnerStep)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A finished run, and how many durable operations it took."""
    folder = make_run(tmp_path_factory.mktemp("kill") / "undisturbed", SETTINGS, steps=STEPS)
    status, operations = life(folder, SETTINGS)
    assert status == 0
    return folder, operations


def fresh(undisturbed: Path, folder: Path) -> Path:
    """The same run before its first step."""
    for name in ("base", "journal"):
        shutil.copytree(undisturbed / name, folder / name)
    return folder


def test_killed_again_and_again_it_ends_as_if_undisturbed(undisturbed: tuple[Path, int], tmp_path: Path) -> None:
    folder, rng = fresh(undisturbed[0], tmp_path / "run"), random.Random(0)
    for _ in range(4):
        status, _ = life(folder, SETTINGS, at=rng.randint(1, undisturbed[1]))
        assert status in (-signal.SIGKILL, 0)
    assert life(folder, SETTINGS)[0] == 0
    assert outcome(folder) == outcome(undisturbed[0])


@pytest.mark.matrix
def test_every_point_of_its_life_is_safe_to_die_at(undisturbed: tuple[Path, int], tmp_path: Path) -> None:
    expected = outcome(undisturbed[0])
    for at in range(1, undisturbed[1] + 1):
        folder = fresh(undisturbed[0], tmp_path / str(at))
        assert life(folder, SETTINGS, at=at)[0] == -signal.SIGKILL
        assert life(folder, SETTINGS)[0] == 0
        assert outcome(folder) == expected, f"killed before durable operation {at}"
        shutil.rmtree(folder)
