"""The geometry of charts, with numbers worked by hand."""

from __future__ import annotations

from envhub.protocol.training.metrics import EnvironmentStep, EvaluationPoint, Histogram, StepMetrics

from hub.training.charts.curves import POINTS, charts_of, polyline
from hub.training.charts.heatmap import COLUMNS, heat_map


def make_step(step: int, reward: float | None = 0.5, **fields: object) -> StepMetrics:
    environments = {"one": EnvironmentStep(reward_mean=reward)}
    return StepMetrics.model_validate({"step": step, "environments": environments, "reward_mean": reward, **fields})


def test_a_line_goes_through_its_points_on_the_axis_from_0_to_1() -> None:
    chart = charts_of([make_step(1, 0.0), make_step(2, 0.5), make_step(3, 1.0)], [])[0]
    (line,) = chart.lines
    assert (line.path, line.band, line.last) == ("M0 100L50 50L100 0", "", "1")
    assert (chart.ticks, line.texts) == (("1", "0.5", "0"), "0|0.5|1")


def test_a_step_without_a_value_interrupts_the_line() -> None:
    assert polyline([(0, 0), (1, 1), None, (3, 3)]) == "M0 0L1 1M3 3h0"


def test_many_steps_become_points_with_a_band_from_lowest_to_highest() -> None:
    steps = [make_step(step, 0.25 if step % 2 else 0.75) for step in range(1, 2 * POINTS + 1)]
    chart = charts_of(steps, [])[0]
    (line,) = chart.lines
    assert len(line.texts.split("|")) == POINTS
    assert set(line.texts.split("|")) == {"0.5"}
    assert line.band.startswith("M0.25 25L")


def test_evaluations_are_dots_with_whiskers_also_before_the_first_step() -> None:
    points = [EvaluationPoint(label="held", step=0, reward_mean=0.5, reward_std_error=0.25)]
    chart = charts_of([make_step(1), make_step(2)], points)[0]
    line = chart.lines[1]
    assert (line.name, line.dots, line.whiskers) == ("evaluated: held", "M0 50h0", "M0 75V25")
    assert line.texts == "0.5 (step 0)|0.5 (step 0)"


def test_what_was_never_measured_has_no_chart() -> None:
    keys = {chart.key for chart in charts_of([make_step(1)], [])}
    assert "reward" in keys
    assert keys.isdisjoint({"kl", "entropy", "memory", "speed", "turns"})


def test_no_step_no_chart() -> None:
    assert charts_of([], []) == []


def test_a_heat_map_shades_a_cell_by_its_share_of_the_step() -> None:
    steps = [make_step(1, rewards=Histogram(low=0, high=1, counts=(3, 1)))]
    found = heat_map("rewards", "Rewards", steps, lambda step: step.rewards)
    assert found is not None
    assert found.shades == ("", "", "M0 18.75H100V25H0Z", "", "M0 68.75H100V75H0Z")
    assert (found.ticks, found.last) == (("1", "0.5", "0"), "about 0.375, 4 rollouts")


def test_the_middle_of_a_range_that_is_nearly_symmetric_is_zero() -> None:
    steps = [make_step(1, rewards=Histogram(low=-2.4697, high=2.4695, counts=(1, 1)))]
    found = heat_map("advantages", "Advantages", steps, lambda step: step.rewards)
    assert found is not None
    assert found.ticks[1] == "0"


def test_a_heat_map_of_many_steps_has_few_columns() -> None:
    steps = [make_step(step, rewards=Histogram(low=0, high=1, counts=(1, 1))) for step in range(1, 1001)]
    found = heat_map("rewards", "Rewards", steps, lambda step: step.rewards)
    assert found is not None
    assert len(found.steps.split("|")) <= COLUMNS


def test_a_heat_map_needs_a_histogram() -> None:
    assert heat_map("rewards", "Rewards", [make_step(1)], lambda step: step.rewards) is None
