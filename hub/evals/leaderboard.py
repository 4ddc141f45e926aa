"""The models that were measured on an environment, best first: each by its most recent evaluation that succeeded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envhub.protocol.evals import EvaluationView, MetricSummary

from hub.evals.charts import Bar, metric_bar
from hub.evals.models import Evaluation
from hub.evals.statistics import Aggregate
from hub.evals.wire import evaluation_view


@dataclass(frozen=True)
class Standing:
    """One model's place. `rank` is None when one example alone was scored: that says nothing about the next one."""

    rank: int | None
    row: Evaluation
    view: EvaluationView
    reward: MetricSummary
    bar: Bar
    examples: int  # with a scored rollout


def standings(newest_first: Iterable[Evaluation]) -> list[Standing]:
    """One row a model, from evaluations that ended; those without a scored rollout are skipped."""
    latest: dict[str, tuple[Evaluation, EvaluationView, MetricSummary]] = {}
    for row in newest_first:
        if row.model_name in latest:
            continue
        view = evaluation_view(row)
        if view.summary.reward is not None:
            latest[row.model_name] = (row, view, view.summary.reward)
    ordered = sorted(latest.values(), key=lambda item: (item[2].std_error is None, -item[2].mean, item[0].model_name))
    return [
        Standing(None if reward.std_error is None else place, row, view, reward, metric_bar(reward), _examples(row))
        for place, (row, view, reward) in enumerate(ordered, 1)
    ]


def _examples(row: Evaluation) -> int:
    moments = Aggregate.model_validate(row.aggregate).reward
    return moments.clusters if moments else 0
