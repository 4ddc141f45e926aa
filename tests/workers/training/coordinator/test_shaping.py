"""Every policy request of training samples from the whole distribution, with a seed of its own where that is asked."""

from __future__ import annotations

import pytest
from envhub.protocol.training.environment import TemperatureSchedule, TrainingSampling

from workers.training.coordinator.plan import RolloutRequest
from workers.training.coordinator.shaping import Shaping, seed_of, training_sampling

REQUEST = RolloutRequest(
    name="t1", example=3, n=2, split="train", sampling={}, forced=training_sampling(0.7), seed="0/1"
)


def shaped(key: str = "t1-1.0", call: int = 0, **body: object) -> dict[str, object]:
    shaping = Shaping()
    shaping.begin("t1-1", REQUEST)
    return shaping(key, call, {"messages": [], **body})


def test_what_would_cut_the_distribution_is_undone() -> None:
    body = shaped(top_p=0.5, top_k=3, min_p=0.1, temperature=0.0, frequency_penalty=1.0, max_tokens=9)
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"]) == (0.7, 1.0, -1, 0.0)
    assert (body["frequency_penalty"], body["max_tokens"]) == (0.0, 9)


def test_each_rollout_and_each_turn_has_a_seed_of_its_own() -> None:
    seeds = {shaped(key, call)["seed"] for key in ("t1-1.0", "t1-1.1") for call in (0, 1)}
    assert len(seeds) == 4


def test_another_try_of_a_group_samples_alike() -> None:
    again = Shaping()
    again.begin("t1-2", REQUEST)
    assert again("t1-2.0", 0, {})["seed"] == shaped()["seed"]


def test_requests_of_nobody_are_left_alone() -> None:
    assert Shaping()("x.0", 0, {"top_p": 0.5}) == {"top_p": 0.5}


def test_a_seed_fits_every_engine() -> None:
    assert all(0 <= seed_of("a", number) < 2**31 for number in range(100))


@pytest.mark.parametrize(("step", "expected"), [(1, 1.0), (6, 0.75), (11, 0.5), (99, 0.5)])
def test_the_temperature_follows_its_schedule(step: int, expected: float) -> None:
    schedule = TemperatureSchedule(start_temperature=1.0, end_temperature=0.5, total_steps=11)
    assert TrainingSampling(temp_scheduler=schedule).temperature_at(step, 100) == pytest.approx(expected)
