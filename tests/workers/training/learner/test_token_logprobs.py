"""The learner's log-probabilities of a step's tokens: those of a fresh forward, from file to file the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.workers.training.learner.making import batch, make_run, model, sample, samples
from tests.workers.training.learner.test_follow import config, follow
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.model import make_policy
from workers.training.learner.step import Learner
from workers.training.learner.token_logprobs import read_logprobs, remove_logprobs, write_logprobs
from workers.training.learner.world import World
from workers.training.samples.arrays import Floats
from workers.training.samples.rollout import RolloutKey
from workers.training.samples.sample import Sample

pytestmark = pytest.mark.torch


def fresh(one: Sample) -> Floats:
    """Log-probabilities of a sample's trained tokens by the plain model, each sequence by itself."""
    with torch.no_grad():
        logits = model()(input_ids=torch.tensor(one.ids.tolist())[None]).logits[0] * one.inv_temperature
    logq = torch.log_softmax(logits, -1)
    places = np.flatnonzero(one.train)
    return np.array([logq[place - 1, one.ids[place]].item() for place in places], np.float32)


@pytest.mark.parametrize("prefix_sharing", [True, False])
@pytest.mark.parametrize("budget", [60, 1000])
def test_they_are_those_of_a_fresh_forward(prefix_sharing: bool, budget: int) -> None:
    given = (*samples(), sample([1, 2, 3], [False] * 3, group=7))
    settings = LearnerConfig(mode="full", prefix_sharing=prefix_sharing)
    made = Learner(make_policy(model(), settings), settings, World())
    report = made.train(batch(1, given), budget=budget)
    assert (report.micro_batches > 1) == (budget == 60)
    np.testing.assert_allclose(made.logprobs, np.concatenate([fresh(one) for one in given]), atol=2e-5)


def test_a_file_gives_back_each_rollouts_turns(tmp_path: Path) -> None:
    first, second = sample([1, 2, 3, 4, 5], [False, True, True, False, True]), sample([1, 2], [False, True], index=1)
    first.turns[4] = 2
    path = tmp_path / "logprobs" / "step-000001.safetensors"
    write_logprobs(path, (first, second), np.array([-1, -2, -3, -4], np.float32))
    assert read_logprobs(path) == {
        RolloutKey(0, 0): {0: (-1.0, -2.0), 2: (-3.0,)},
        RolloutKey(0, 1): {0: (-4.0,)},
    }
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_is_not_finite_damaged_or_gone_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a" / "step-000001.safetensors"
    assert read_logprobs(path) == {}
    write_logprobs(path, (sample([1, 2], [False, True]),), np.array([np.nan], np.float32))
    assert read_logprobs(path) == {}
    path.write_bytes(b"not a file of tensors")
    assert read_logprobs(path) == {}


def test_a_replay_makes_the_same_file_and_a_told_step_none(tmp_path: Path) -> None:
    run = follow(make_run(tmp_path, config(interval=9), steps=3), config(max_steps=3, interval=9))
    before = {path.name: path.read_bytes() for path in run.logprobs.iterdir()}
    assert sorted(before) == [f"step-00000{step}.safetensors" for step in (1, 2, 3)]
    remove_logprobs(run.logprobs, 2)
    run.logprobs_of(3).unlink()
    lines = run.metrics.read_bytes().splitlines(keepends=True)
    run.metrics.write_bytes(b"".join(lines[:2]))  # killed after the second step's line
    for folder in run.checkpoints.iterdir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    follow(tmp_path, config(max_steps=3, interval=9))
    assert {path.name: path.read_bytes() for path in run.logprobs.iterdir()} == {
        "step-000003.safetensors": before["step-000003.safetensors"]
    }
