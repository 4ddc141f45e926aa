"""The models that were measured on an environment in the same way, best first: what page and API both show.

Scores are compared only under equal settings. Of each model the most recent evaluation that succeeded so counts.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from envhub.protocol.evals import EvaluationView, MetricSummary
from envhub.protocol.leaderboards import BoardSettings
from envhub.protocol.measured import in_words, measured

from hub.accounts.queries import Caller
from hub.core.errors import NotFound
from hub.evals.charts import Bar, metric_bar
from hub.evals.models import Evaluation
from hub.evals.queries import Result, recent_results, visible_evaluations
from hub.evals.statistics import Aggregate
from hub.evals.wire import evaluation_view
from hub.registry.models import Environment


@dataclass(frozen=True)
class Standing:
    """One model's place. `rank` is None when one example alone was scored: that says nothing about the next one."""

    rank: int | None
    row: Evaluation
    view: EvaluationView
    reward: MetricSummary
    bar: Bar
    examples: int  # with a scored rollout


@dataclass(frozen=True)
class Leaderboard:
    """The standings under `shown`; `settings` are all that there are, those of the most models first.

    `newest_only`: of how many evaluations, where there are older ones that rank nowhere.
    """

    shown: BoardSettings | None
    settings: tuple[BoardSettings, ...]
    standings: tuple[Standing, ...]
    newest_only: int | None = None


def leaderboard(user: Caller, environment: Environment, key: str = "") -> Leaderboard:
    """Under the settings of `key`, else of the most models (then evaluations, then the newest). Raises NotFound."""
    latest: dict[str, dict[str, Result]] = {}  # key -> model -> its newest
    evaluations: Counter[str] = Counter()
    results, has_older = recent_results(user, environment)
    for result in results:
        name = _key(result)
        evaluations[name] += 1
        latest.setdefault(name, {}).setdefault(result.model_name, result)
    if key and key not in latest:
        raise NotFound(
            "no recent evaluation of this environment has these settings",
            code="no_such_settings",
            hint="leave `settings` out for those of the most models",
        )
    found = {name: _settings(name, results) for name, results in latest.items()}
    settings = sorted(found.values(), key=lambda item: (-item.models, -evaluations[item.key]))
    if not settings:
        return Leaderboard(None, (), ())
    shown = found[key] if key else settings[0]
    chosen = visible_evaluations(user).filter(pk__in=[result.pk for result in latest[shown.key].values()])
    return Leaderboard(shown, tuple(settings), tuple(standings(chosen)), len(results) if has_older else None)


def standings(rows: Iterable[Evaluation]) -> list[Standing]:
    """One place for each evaluation that has a scored rollout."""
    viewed = [(row, evaluation_view(row)) for row in rows]
    scored = [(row, view, view.summary.reward) for row, view in viewed if view.summary.reward is not None]
    scored.sort(key=lambda item: (item[2].std_error is None, -item[2].mean, item[0].model_name))
    return [
        Standing(None if reward.std_error is None else place, row, view, reward, metric_bar(reward), _scored(row))
        for place, (row, view, reward) in enumerate(scored, 1)
    ]


def _scored(row: Evaluation) -> int:
    moments = Aggregate.model_validate(row.aggregate).reward
    return moments.clusters if moments else 0


def _key(result: Result) -> str:
    parts = [str(result.version_id), result.config["split"], _examples(result), measured(result.config)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _examples(result: Result) -> int | None:
    """How many there are to measure: no more than the data set has, as soon as that is known."""
    if result.planned:
        return result.planned // int(result.config["rollouts_per_example"])
    wanted = int(result.config["num_examples"])
    return wanted if wanted > 0 else None


def _settings(key: str, results: dict[str, Result]) -> BoardSettings:
    result = next(iter(results.values()))
    examples = _examples(result)
    counted = "all examples" if examples is None else f"{examples} example{'s'[: examples != 1]}"
    return BoardSettings(
        key=key,
        title=" · ".join((result.version or "no version", counted, *in_words(result.config))),
        version=result.version,
        split=result.config["split"],
        examples=examples,
        values=measured(result.config),
        models=len(results),
    )
