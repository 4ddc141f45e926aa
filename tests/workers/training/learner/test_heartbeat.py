"""The heartbeat: often enough while the learner works, from a thread for a bounded time, and never for a deadlock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.training.learner.making import batch, make_run, model, samples
from workers.training.learner import checkpoint, publish
from workers.training.learner import heartbeat as heartbeat
from workers.training.learner.directory.config import CheckpointConfig, LearnerConfig, LossConfig
from workers.training.learner.directory.reports import LearnerState, read_file
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.follow import Follower
from workers.training.learner.heartbeat import Heartbeat
from workers.training.learner.model import load_policy, make_policy
from workers.training.learner.recompute import recompute_layers
from workers.training.learner.step import Learner
from workers.training.learner.world import World

pytestmark = pytest.mark.torch


def said(run: RunDir) -> LearnerState:
    state = read_file(run.state, LearnerState)
    assert state is not None
    return state


def until(true: Callable[[], bool]) -> None:
    """A loaded machine takes its time."""
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come true")


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


def test_what_is_new_is_said_at_once_and_the_rest_seldom(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 3600.0)
    made = Heartbeat(run)
    made.beat("training")
    first = said(run)
    made.beat()
    assert said(run) == first
    made.step = 7
    made.beat()
    assert said(run).step == 7
    made.beat("waiting")
    assert said(run).phase == "waiting"


def test_only_the_first_of_several_processes_writes_it(run: RunDir) -> None:
    with Heartbeat(run, first=False).busy("loading"):
        pass
    assert not run.state.exists()


def test_a_long_phase_is_beaten_by_a_thread_which_ends_with_it(run: RunDir) -> None:
    with Heartbeat(run).busy("checkpointing"):
        first = said(run)
        until(lambda: said(run).t > first.t)
        assert said(run).phase == "checkpointing"
    assert all(not thread.name.startswith("busy") for thread in threading.enumerate())


def test_a_phase_without_end_falls_silent(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LONGEST_S", 0.0)
    with Heartbeat(run).busy("publishing"):
        until(lambda: all(not thread.name.startswith("busy") for thread in threading.enumerate()))


@pytest.mark.parametrize("recomputed", [0, 2])
@pytest.mark.parametrize(("name", "passes"), [("dapo", 1), ("gspo", 2)])
def test_one_micro_batch_beats_in_every_layer_and_chunk(name: str, passes: int, recomputed: int) -> None:
    config = LearnerConfig(head_chunk=10, loss=LossConfig(name=name))
    beats = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    policy = make_policy(model(num_hidden_layers=3), config)
    recompute_layers(policy, recomputed)
    report = Learner(policy, config, World(), beat).train(batch(1, samples()), budget=1000)
    chunks = -(-report.trained_tokens // 10)
    assert report.micro_batches == 1
    assert beats == 3 + 3 + passes * chunks


def test_reading_and_writing_weights_is_never_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = LearnerConfig(max_steps=1, token_budget=64, checkpoint=CheckpointConfig(interval=1))
    run = RunDir(make_run(tmp_path / "run", settings, steps=1))
    slow: list[str] = []

    def slowly(real: Callable[..., Any]) -> Callable[..., Any]:
        def waiting(*given: Any, **named: Any) -> Any:
            first = said(run)
            until(lambda: said(run).t > first.t)
            slow.append(first.phase)
            return real(*given, **named)

        return waiting

    for of, name in ((checkpoint, "restore_checkpoint"), (publish, "publish"), (checkpoint, "save_checkpoint")):
        monkeypatch.setattr(of, name, slowly(getattr(of, name)))
    made, policy = Heartbeat(run), load_policy(run.base, settings, torch.device("cpu"), dtype=torch.float32)
    Follower(run, settings, Learner(policy, settings, World(), made.beat), made).follow()
    assert slow == ["loading", "loading", "publishing", "checkpointing"]  # an adapter is published from the start
