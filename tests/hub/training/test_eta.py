"""How long a run will go on is said from the pace of its newest steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from envhub.protocol.training.metrics import StepMetrics

from hub.training.pages.run import remaining

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def make_steps(seconds: float, count: int = 3) -> list[StepMetrics]:
    return [StepMetrics(step=n, at=BEGAN, seconds={"step": seconds}) for n in range(1, count + 1)]


@pytest.mark.parametrize(("seconds", "text"), [(1.0, "a minute"), (60.0, "17 min"), (600.0, "2 h 50 min")])
def test_what_is_left_is_rounded(seconds: float, text: str) -> None:
    assert remaining(make_steps(seconds), 20) == text


def test_the_time_before_a_run_was_resumed_is_not_its_pace() -> None:
    steps = make_steps(60.0)
    resumed = steps[-1].model_copy(update={"at": BEGAN + timedelta(days=3)})
    assert remaining([*steps[:-1], resumed], 20) == "17 min"


def test_one_step_says_nothing_of_the_pace() -> None:
    assert remaining(make_steps(60.0, 1), 20) == ""
