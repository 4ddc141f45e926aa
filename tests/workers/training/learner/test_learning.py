"""A small model learns to reverse three letters; with the advantage's sign flipped it must not."""

from __future__ import annotations

import pytest

from tests.workers.training.learner.reversing import learn

pytestmark = pytest.mark.torch
STEPS = 15


def test_the_reward_rises() -> None:
    rewards = learn(steps=STEPS)
    assert sum(rewards[-4:]) / 4 > 0.9
    assert rewards[-1] > rewards[0] + 0.08


def test_with_the_advantages_sign_flipped_it_falls() -> None:
    rewards = learn(steps=STEPS, sign=-1.0)
    assert sum(rewards[-4:]) / 4 < 0.3
