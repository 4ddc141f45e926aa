"""The time that a run has left, from how fast it went."""

from __future__ import annotations

from itertools import count

from workers.runs.pace import Pace


def test_what_was_done_before_and_the_loading_are_no_speed() -> None:
    ticks = count(0, 10)
    pace = Pace(lambda: float(next(ticks)))
    assert pace.left_s(0, 0, "rollouts") is None  # loading
    assert pace.left_s(900, 1000, "rollouts") is None  # resumed
    assert pace.left_s(920, 1000, "rollouts") == 40.0
    assert pace.left_s(1000, 1000, "rollouts") == 0.0


def test_nothing_is_said_in_the_first_seconds() -> None:
    pace = Pace(count(0).__next__)
    assert [pace.left_s(done, 10, "steps") for done in range(5)] == [None] * 5
    assert pace.left_s(5, 10, "steps") == 5.0
