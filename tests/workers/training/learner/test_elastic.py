"""A learner of two processes on this host, by the real launcher: it follows the journal, and its end has a reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers.training.learner.making import make_run
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.directory.reports import LearnerFailure, LearnerState, read_file
from workers.training.learner.directory.run_dir import RunDir

pytestmark = [pytest.mark.torch, pytest.mark.matrix]  # each loads torch three times
ROOT = Path(__file__).parents[4]
COMMAND = [sys.executable, "-m", "workers.training.learner.elastic", "2"]


def test_both_processes_train_what_is_journaled(tmp_path: Path) -> None:
    settings = LearnerConfig(mode="lora", token_budget=64, poll_seconds=0.05, max_steps=2, device="cpu")
    run = RunDir(make_run(tmp_path / "run", settings, steps=2))
    done = subprocess.run([*COMMAND, run.root], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    state = read_file(run.state, LearnerState)
    assert state is not None
    assert (state.phase, state.step) == ("done", 2)
    assert run.version(2).is_dir()


def test_the_first_failure_is_the_exit_status(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"mode": "prayer"}')
    done = subprocess.run([*COMMAND, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    failure = read_file(RunDir(tmp_path).error, LearnerFailure)
    assert done.returncode == 2
    assert failure is not None
    assert "prayer" in failure.message
