from __future__ import annotations

import pytest

from workers.training.admission.in_flight import groups_to_start, in_flight_limit
from workers.training.admission.staleness import can_still_train


@pytest.mark.parametrize(
    ("keys", "limit"),
    [({}, 128), ({"oversampling_factor": 1.5}, 192), ({"oversampling_factor": 0.01}, 8), ({"max_inflight": 64}, 64)],
)
def test_the_limit_of_rollouts_in_flight(keys: dict[str, float], limit: int) -> None:
    assert in_flight_limit(batch_size=128, group_size=8, **keys) == limit  # type: ignore[arg-type]


def test_both_keys_or_too_small_a_limit_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        in_flight_limit(batch_size=8, group_size=8, max_inflight=8, oversampling_factor=1.0)
    with pytest.raises(ValueError, match="a group has 8"):
        in_flight_limit(batch_size=8, group_size=8, max_inflight=4)


@pytest.mark.parametrize(
    ("in_flight", "wanted", "groups"), [(0, None, 4), (30, None, 0), (24, None, 1), (0, 1, 1), (0, -3, 0)]
)
def test_only_whole_groups_start(in_flight: int, wanted: int | None, groups: int) -> None:
    assert groups_to_start(in_flight=in_flight, limit=32, group_size=8, wanted_groups=wanted) == groups


def test_a_group_in_flight_is_cancelled_when_it_cannot_finish_in_time() -> None:
    assert can_still_train(3, step=6, bound=2)
    assert not can_still_train(3, step=7, bound=2)
