"""`python -m workers.training.learner RUN_DIR`, the real command."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workers.training.learner.making import batch, make_run, samples
from workers.training.journal.writer import JournalWriter
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.directory.reports import LearnerFailure, LearnerState, read_file
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.directory.turn_files import write_token

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[4]
COMMAND = [sys.executable, "-m", "workers.training.learner"]


def wait_for(path: Path) -> None:
    """Until `path` is there; a loaded machine takes its time to load torch."""
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} did not appear")


def test_a_wrong_configuration_is_told_before_torch_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"mode": "lora", "lerning_rate": 1}')
    done = subprocess.run([*COMMAND, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    failure = read_file(RunDir(tmp_path).error, LearnerFailure)
    assert done.returncode == 2
    assert failure is not None
    assert failure.code == "bad_config"
    assert "lerning_rate" in failure.message


def test_it_follows_the_journal_and_leaves_when_told(tmp_path: Path) -> None:
    settings = LearnerConfig(mode="lora", token_budget=64, poll_seconds=0.05)
    run = RunDir(make_run(tmp_path / "run", settings, steps=1))
    with subprocess.Popen([*COMMAND, str(run.root)], cwd=ROOT) as learner:
        try:
            wait_for(run.version(1))
            with JournalWriter(run.journal) as writer:
                writer.append(batch(2, samples(seed=2)))
            wait_for(run.version(2))
            run.stop.touch()
            assert learner.wait(120) == 0
        finally:
            learner.kill()
    state = read_file(run.state, LearnerState)
    assert state is not None
    assert (state.phase, state.step, state.checkpoint) == ("done", 2, 2)


@pytest.mark.matrix
def test_it_is_alive_while_it_waits_for_its_first_turn(tmp_path: Path) -> None:
    settings = LearnerConfig(mode="lora", poll_seconds=0.05, takes_turns=True)
    run = RunDir(make_run(tmp_path / "run", settings, steps=0))
    with subprocess.Popen([*COMMAND, str(run.root)], cwd=ROOT) as learner:
        try:
            wait_for(run.turn_wanted)
            wait_for(run.state)
            first = read_file(run.state, LearnerState)
            while read_file(run.state, LearnerState) == first:
                assert learner.poll() is None
                time.sleep(0.1)
            run.stop.touch()
            write_token(run.turn_granted, run.turn_wanted.read_text())
            assert learner.wait(120) == 0
        finally:
            learner.kill()


@pytest.mark.matrix
def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    run = RunDir(make_run(tmp_path / "run", LearnerConfig(mode="lora", poll_seconds=0.05), steps=0))
    script = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script, *COMMAND, str(run.root)], cwd=ROOT) as parent:
        wait_for(run.state)
        state = read_file(run.state, LearnerState)
        parent.kill()
    assert state is not None
    for _ in range(600):
        if not Path(f"/proc/{state.pid}").exists():
            return
        time.sleep(0.1)
    raise AssertionError("the learner outlived its parent")
