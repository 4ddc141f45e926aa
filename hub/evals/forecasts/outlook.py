"""What an evaluation suggests to do next: how many examples would separate two models, and whether to train."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hub.evals.forecasts.power import Power, default_difference, power
from hub.evals.forecasts.trainability import BATCH, STEPS, Forecast, forecast
from hub.evals.models import Evaluation
from hub.evals.prices import cost_of
from hub.evals.statistics import Aggregate


@dataclass(frozen=True)
class Outlook:
    """`seconds`: of sampling for STEPS steps at the evaluation's own pace, by group size; {} if unknown.

    cost: US dollars for an evaluation on enough examples to separate the difference; None without a price.
    """

    power: Power | None
    forecast: Forecast | None
    seconds: dict[int, float]
    cost: float | None = None
    steps: int = STEPS
    batch: int = BATCH

    @property
    def best_seconds(self) -> float | None:
        """Sampling seconds for the group size with the most signal."""
        return self.seconds.get(self.forecast.best.size) if self.forecast else None


def outlook(evaluation: Evaluation, *, difference: str = "") -> Outlook:
    """Compute the outlook from the running statistics; a replay has too few rollouts for one.

    difference: the difference in reward to separate, as text from the address.
    """
    if evaluation.config.get("replay"):
        return Outlook(None, None, {})
    aggregate = Aggregate.model_validate(evaluation.aggregate)
    found, enough = forecast(aggregate), _power(aggregate, difference)
    seconds = _seconds(evaluation, aggregate, found) if found else {}
    return Outlook(enough, found, seconds, _cost(evaluation, aggregate, enough) if enough else None)


def _power(aggregate: Aggregate, difference: str) -> Power | None:
    moments = aggregate.reward
    if moments is None:
        return None
    error = moments.summary("reward").std_error
    first = power(error, moments.clusters, 1.0)
    wanted = _read(difference)
    if first is None:
        return None
    return power(error, moments.clusters, wanted or default_difference(first.smallest))


def _cost(evaluation: Evaluation, aggregate: Aggregate, enough: Power) -> float | None:
    so_far = cost_of(evaluation.prices, aggregate.usage, aggregate.judge_usage)
    if so_far is None or not aggregate.stored:
        return None
    return so_far / aggregate.stored * int(evaluation.config["rollouts_per_example"]) * enough.needed


def _read(text: str) -> float | None:
    """Parse a difference above 0; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 1e-6 <= value <= 1e6 else None


def _seconds(evaluation: Evaluation, aggregate: Aggregate, found: Forecast) -> dict[int, float]:
    """Return the time of a group by its size, at this evaluation's pace; empty if an earlier run or attempt has had a
    part of the rollouts, since only the last one's time is known."""
    run = evaluation.run
    if run is None or run.started_at is None or run.finished_at is None or not aggregate.stored:
        return {}
    if run.attempt != 1 or run.led_here:
        return {}
    each = (run.finished_at - run.started_at).total_seconds() / aggregate.stored
    return {group.size: each * group.rollouts for group in found.groups if group.rollouts}
