"""Round axes and short numbers."""

from __future__ import annotations

import pytest

from hub.training.charts.scales import round_halves, scale_of, short, tick_texts


@pytest.mark.parametrize(
    ("values", "options", "ticks"),
    [
        ([0.2, 0.9], {"unit_range": True}, (1.0, 0.5, 0.0)),
        ([-0.5, 0.9], {"unit_range": True}, (1.0, 0.0, -1.0)),
        ([3.0, 7.0], {}, (8.0, 6.0, 4.0, 2.0)),
        ([3.0, 7.0], {"from_zero": True}, (10.0, 5.0, 0.0)),
        ([0.0], {"from_zero": True}, (1.0, 0.5, 0.0)),
        ([], {}, (1.0, 0.0, -1.0)),
        ([float("nan"), 2.0], {"from_zero": True}, (2.0, 1.0, 0.0)),
        ([3e-14], {"from_zero": True}, (4e-14, 2e-14, 0.0)),
        ([1e-13, 3e-13], {}, (3e-13, 2e-13, 1e-13)),
        ([0.1, 0.3], {}, (0.3, 0.2, 0.1)),
        ([0.0, 5e-324], {}, (1.0, 0.0, -1.0)),
        ([-1e100, 1e100], {}, (1e100, 0.0, -1e100)),
    ],
)
def test_an_axis_has_round_ends_around_its_values(
    values: list[float], options: dict[str, bool], ticks: tuple[float, ...]
) -> None:
    assert scale_of(values, **options).ticks == ticks


def test_values_that_differ_in_their_last_digits_are_a_level_line() -> None:
    scale = scale_of([1.0, 1.0000002])
    assert scale.ticks[0] - scale.ticks[-1] >= 1.0
    assert scale.y(1.0) == scale.y(1.0000002)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, (1.0, 0.5, 0.0)),
        (-2.47, 2.47, (2.5, 0.0, -2.5)),
        (-1.0000001, 1.0, (1.0, 0.0, -1.0)),
        (0.0, 0.66, (0.8, 0.4, 0.0)),
        (-3.1, 0.2, (0.5, -1.5, -3.5)),
        (2.0, 2.0, (3.0, 2.0, 1.0)),
        (0.0, 0.0, (1.0, 0.0, -1.0)),
        (0.0, 5e-324, (1.0, 0.0, -1.0)),
    ],
)
def test_a_filled_axis_has_round_ends_and_a_round_middle(
    low: float, high: float, ticks: tuple[float, float, float]
) -> None:
    assert round_halves(low, high) == ticks


def test_no_two_ticks_are_written_alike() -> None:
    scale = scale_of([100.02, 100.05])
    assert len(set(tick_texts(scale, ""))) == len(scale.ticks)
    assert tick_texts(scale_of([0.1, 0.3]), "") == ("0.3", "0.2", "0.1")
    assert tick_texts(scale_of([0.0, 1e-4]), "") == ("1e−4", "5e−5", "0")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.01234, "", "0.0123"),
        (-0.5, "", "\u22120.5"),
        (0.256, "share", "25.6\u202f%"),
        (12345.0, "k", "12.3\u202fk"),
        (612e6, "B", "612\u202fMB"),
        (14.02, "s", "14\u202fs"),
        (7.0, "k", "7"),
        (None, "", "–"),
        (float("inf"), "", "–"),
    ],
)
def test_a_number_is_short(value: float | None, unit: str, text: str) -> None:
    assert short(value, unit) == text
