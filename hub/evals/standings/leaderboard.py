"""Ranks the models that were measured on an environment in the same way, best first, for both page and API.

Scores are compared only under equal settings. For each model, the newest successful evaluation with these settings
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envhub.protocol.evals.evaluations import EvaluationView, MetricSummary
from envhub.protocol.evals.leaderboards import BoardSettings
from envhub.protocol.evals.measured import in_words, measured

from hub.accounts.queries import Caller
from hub.core.database_json import storable_text
from hub.core.errors import NotFound
from hub.evals.boards import examples_of
from hub.evals.charts import Bar, metric_bar
from hub.evals.models import Evaluation
from hub.evals.queries import (
    MOST_BOARDS,
    MOST_CONTENDERS,
    MOST_RANKED,
    Board,
    Owners,
    boards,
    contenders,
    newest_of_models,
    owners_seen,
    plain_evaluations,
)
from hub.evals.wire import evaluation_view, scored_examples
from hub.registry.models import Environment


@dataclass(frozen=True)
class Standing:
    """One model's place. `rank` is None if only one example was scored, which says nothing about the next one."""

    rank: int | None
    row: Evaluation
    view: EvaluationView
    reward: MetricSummary
    bar: Bar
    examples: int  # examples with a scored rollout


@dataclass(frozen=True)
class Leaderboard:
    """The standings under the settings `shown`; `settings` are all that are offered, in the order of `boards`.

    more_settings: whether there are others; newest_only: how many models are shown, if there are more.
    """

    shown: BoardSettings | None
    settings: tuple[BoardSettings, ...]
    standings: tuple[Standing, ...]
    more_settings: bool = False
    newest_only: int | None = None

    @property
    def has_costs(self) -> bool:
        """Whether any of these models had a price."""
        return any(place.view.summary.cost is not None for place in self.standings)


def leaderboard(user: Caller, environment: Environment, key: str = "") -> Leaderboard:
    """Return the board named `key`, by default the first one, which is the newest version's. Raises NotFound."""
    owners = owners_seen(user)
    known = contenders(owners, environment)
    capped = len(known) >= MOST_CONTENDERS
    found = boards(known)
    offered, more = found[:MOST_BOARDS], capped or len(found) > MOST_BOARDS
    if key and key not in {board.key for board in offered}:
        offered += _asked(owners, environment, storable_text(key))
    settings = _settings(offered)
    if not settings:
        return Leaderboard(None, (), ())
    shown = next((item for item in settings if item.key == key), settings[0])
    if capped:
        known = contenders(owners, environment, shown.key)
    newest = newest_of_models(known, shown.key)
    places = standings(plain_evaluations().filter(pk__in=newest[:MOST_RANKED]))
    return Leaderboard(shown, settings, tuple(places), more, MOST_RANKED if len(newest) > MOST_RANKED else None)


def _asked(owners: Owners, environment: Environment, key: str) -> list[Board]:
    found = boards(contenders(owners, environment, key))
    if not found:
        raise NotFound(
            "no evaluation of this environment has these settings",
            code="no_such_settings",
            hint="omit them to get the leaderboard of the newest version",
        )
    return found


def standings(rows: Iterable[Evaluation]) -> list[Standing]:
    """Return one place for each evaluation that has a scored rollout."""
    viewed = [(row, evaluation_view(row)) for row in rows]
    scored = [(row, view, view.summary.reward) for row, view in viewed if view.summary.reward is not None]
    scored.sort(key=lambda item: (item[2].std_error is None, -item[2].mean, item[0].model_name))
    return [
        Standing(
            None if reward.std_error is None else place, row, view, reward, metric_bar(reward), scored_examples(row)
        )
        for place, (row, view, reward) in enumerate(scored, 1)
    ]


def _settings(found: Sequence[Board]) -> tuple[BoardSettings, ...]:
    rows = plain_evaluations().in_bulk([board.newest for board in found])
    return tuple(_described(board, rows[board.newest]) for board in found if board.newest in rows)


def _described(board: Board, row: Evaluation) -> BoardSettings:
    examples = examples_of(row)
    counted = "all examples" if examples is None else f"{examples} example{'s'[: examples != 1]}"
    version = row.version.version if row.version else None
    return BoardSettings(
        key=board.key,
        title=" · ".join((version or "no version", counted, *in_words(row.config))),
        version=version,
        split=row.config["split"],
        examples=examples,
        values=measured(row.config),
        models=board.models,
    )
