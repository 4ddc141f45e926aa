"""Several runs over one another: curves worked by hand, the page, and the settings that differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from envhub.protocol.training.metrics import StepMetrics

from hub.training.charts import history
from hub.training.charts.curves import Span
from hub.training.charts.history import chart_evaluations
from hub.training.charts.overlay import WORDS, Axis, Curves, Drawn, overlaid, places_of
from hub.training.charts.overlay_panels import OVERLAID
from hub.training.charts.scales import log_scale_of
from hub.training.charts.zoom import Zoom, steps_on
from hub.training.configuration_diff import differing
from hub.training.models import Step, TrainingRun
from hub.training.pages.compare import tones_of
from tests.factories.training_showcase import TrainingShowcase

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _steps(*rewards: float, every: int = 1) -> list[StepMetrics]:
    return [
        StepMetrics(
            step=1 + place * every,
            reward_mean=reward,
            trained_tokens=100,
            at=NOON + timedelta(minutes=place),
            seconds={"step": 60.0},
        )
        for place, reward in enumerate(rewards)
    ]


def _curves(*rewards: float, name: str = "run", tone: int = 0) -> Curves:
    steps = _steps(*rewards)
    return Curves(name, tone, steps, places_of(steps, Axis.STEP), [])


def test_runs_of_different_lengths_share_an_axis_and_end_where_they_ended() -> None:
    drawn = Drawn(Span(1, 3), smooth=0.0, logarithmic=False)
    chart = overlaid(OVERLAID[0], [_curves(0.0, 0.5, 1.0), _curves(1.0, 0.5, name="short", tone=5)], drawn)
    assert chart is not None
    assert [(line.name, line.tone, line.path) for line in chart.lines] == [
        ("run", 0, "M0 100L50 50L100 0"),
        ("short", 5, "M0 0L50 50"),
    ]
    assert [line.texts for line in chart.lines] == ["0|0.5|1", "1|0.5|"]
    assert chart.steps == "1|2|3"


def test_smoothing_does_not_begin_at_nought() -> None:
    drawn = Drawn(Span(1, 2), smooth=0.5, logarithmic=False)
    chart = overlaid(OVERLAID[0], [_curves(1.0, 0.0)], drawn)
    assert chart is not None
    assert chart.lines[0].texts == "1|0.333"  # 0.25 / 0.75


def test_a_logarithmic_axis_has_whole_decades_and_no_place_for_nought() -> None:
    scale = log_scale_of([0.003, 0.2, 0.0, -1.0])
    assert scale is not None
    assert scale.ticks == pytest.approx((1.0, 0.1, 0.01, 0.001))
    assert scale.y(0.01) == pytest.approx(66.67)
    assert log_scale_of([0.0]) is None
    drawn = Drawn(Span(1, 3), smooth=0.0, logarithmic=True)
    chart = overlaid(OVERLAID[0], [_curves(0.1, 0.0, 1.0)], drawn)
    assert chart is not None
    assert chart.lines[0].path == "M0 100h0M100 0h0"


def test_time_begins_with_the_first_step_and_tokens_add_up_over_steps_that_were_not_read() -> None:
    steps = _steps(0.0, 0.0, 0.0, every=10)
    assert places_of(steps, Axis.TIME) == [60, 120, 180]
    assert places_of(steps, Axis.TOKENS) == [100, 1100, 2100]


def test_a_run_keeps_its_colour_beside_newer_ones(showcase: TrainingShowcase) -> None:
    runs = list(TrainingRun.objects.order_by("pk"))
    tones = tones_of(runs)
    assert len(set(tones)) == len(runs)
    assert tones_of(runs[:2]) == tones[:2]


def test_only_settings_that_differ_are_named() -> None:
    found = differing([
        {"max_steps": 10, "trainer": {"rank": 8, "seed": 1}, "env": [{"id": "a", "args": {}}]},
        {"max_steps": 10, "trainer": {"rank": 16}, "env": [{"id": "b"}]},
    ])  # fmt: skip
    assert [(one.name, one.texts) for one in found] == [
        ("trainer.rank", ("8", "16")),
        ("trainer.seed", ("1", "–")),
        ("env.0.id", ("a", "b")),
    ]


def test_the_page_draws_the_steps_that_are_asked_for(ada: Client, showcase: TrainingShowcase) -> None:
    path = f"/training/compare?id={showcase.running.pk}&id={showcase.ended.pk}"
    whole = ada.get(f"{path}&by=tokens&smooth=0.9")
    assert {line.name for line in whole.context["charts"][0].lines} == {run["name"] for run in whole.context["runs"]}
    span = ada.get(f"{path}&from=5&to=9").context["span"]
    assert (span.first, span.last) == (5, 9)
    assert "No run has steps in this range" in ada.get(f"{path}&from=9000").content.decode()
    assert ada.get(f"{path}&smooth=2").status_code == 422


@pytest.mark.parametrize(("by", "first", "last"), [(Axis.TIME, 300, 900), (Axis.TOKENS, 5_000, 20_000)])
def test_a_zoom_is_in_the_units_of_the_axis(showcase: TrainingShowcase, by: Axis, first: int, last: int) -> None:
    whole, places = steps_on(showcase.running, by, Zoom())
    steps, shown = steps_on(showcase.running, by, Zoom(first, last))
    inside = [(step.step, place) for step, place in zip(whole, places, strict=True) if first <= place <= last]
    assert [(step.step, place) for step, place in zip(steps, shown, strict=True)] == inside
    assert 0 < len(inside) < len(whole)


def test_a_zoom_into_a_long_run_reads_every_step_of_it(showcase: TrainingShowcase) -> None:
    training = TrainingRun.objects.get(pk=showcase.running.pk)  # its own: other tests read the shared one
    one = _steps(0.5)[0]
    Step.objects.filter(training=training).delete()
    Step.objects.bulk_create(
        Step(training=training, step=step, metrics=_at_minute(one, step).model_dump(mode="json"))
        for step in range(1, 2001)
    )
    training.step = 2000
    steps, places = steps_on(training, Axis.TIME, Zoom(60_000, 60_600))
    assert [one.step for one in steps] == list(range(1000, 1011))
    assert places == [60 * step for step in range(1000, 1011)]


def _at_minute(one: StepMetrics, step: int) -> StepMetrics:
    return one.model_copy(update={"step": step, "at": NOON + timedelta(minutes=step)})


def test_ticks_of_a_narrow_zoom_differ() -> None:
    assert Span(360_000, 360_120, WORDS[Axis.TIME], "").texts == ("100 h", "100.02 h", "100.03 h")


def test_what_is_hidden_or_too_much_is_not_compared(ada: Client, mallory: Client, showcase: TrainingShowcase) -> None:
    path = f"/training/compare?id={showcase.running.pk}"
    assert ada.get(path).status_code == 200
    assert mallory.get(path).status_code == 404
    assert ada.get(path + path.partition("?")[2].join(["&"] * 9)).status_code == 422
    assert ada.get("/training/compare").url == "/training"  # type: ignore[attr-defined]


def test_a_zoom_into_the_beginning_has_its_evaluations(
    showcase: TrainingShowcase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_EVALUATIONS", 2)
    assert [point.step for point in chart_evaluations(showcase.running)] == [50, 60]
    assert [point.step for point in chart_evaluations(showcase.running, first=5, last=29)] == [10, 20]
