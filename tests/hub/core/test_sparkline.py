"""The small curves of rewards in lists."""

from __future__ import annotations

from hub.core.sparkline import sparkline


def test_a_sparkline_keeps_the_scale_of_rewards() -> None:
    assert sparkline([0.5]) == ""
    assert sparkline([0.0, 1.0]) == "0.0,92.0 100.0,8.0"
    assert sparkline([-1.0, 0.0]) == "0.0,92.0 100.0,50.0"
    assert sparkline([0.5, 0.5]) == "0.0,50.0 100.0,50.0"
