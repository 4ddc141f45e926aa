"""Collects the figures of an evaluation's report for print: two pages, so lists are bounded and texts clipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from envhub.packaging.conversation import pretty
from envhub.protocol.evals.evaluations import EvaluationSummary, MetricSummary
from envhub.protocol.evals.measured import measured
from envhub.protocol.runs import WorkerFacts

from hub.core.errors import Invalid
from hub.evals.charts import coverage, histogram, pass_at_k_bars
from hub.evals.comparing.paired import example_means
from hub.evals.hidden_values import hidden
from hub.evals.models import Evaluation
from hub.evals.queries import example_tallies, rollouts_together
from hub.evals.reports.fingerprints import evaluation_fingerprint
from hub.evals.statistics import Aggregate
from hub.evals.wire import evaluation_view
from hub.registry.models import Version
from hub.runs.models import Run, Worker

CLIPPED = 240  # characters of one setting
MOST_METRICS, MOST_PASSES, MOST_EXTREMES, MOST_WORKERS = 8, 6, 5, 4
_INSIDE = ("judges", "allow_hosts")
_Z = 1.959964
Lines = list[tuple[str, str]]


@dataclass(frozen=True)
class Figure:
    """A mean with its 95 % interval. There is none without a standard error, or if all values are equal (`alike`).

    bounded: all values are equal, and the interval is the one that MetricSummary.bound gives.
    """

    name: str
    mean: float
    low: float | None
    high: float | None
    alike: bool = False
    bounded: bool = False


@dataclass(frozen=True)
class Extreme:
    """An example with a very low or high reward, and the beginning of its prompt."""

    example: int
    reward: float
    asked: str


def figure(metric: MetricSummary) -> Figure:
    """Return a metric with the interval from its clustered standard error."""
    error = metric.std_error
    if metric.limit is not None:
        ends = sorted((metric.mean, metric.limit))
        return Figure(metric.name, metric.mean, ends[0], ends[1], bounded=True)
    half = None if not error else _Z * error
    low, high = (None, None) if half is None else (metric.mean - half, metric.mean + half)
    return Figure(metric.name, metric.mean, low, high, alike=error == 0.0)


def evaluation_report(evaluation: Evaluation, *, inside: bool) -> dict[str, Any]:
    """Return the context of the report. inside: the reader is a member and may see the names of workers."""
    view = evaluation_view(evaluation)
    summary = view.summary
    metrics = [figure(metric) for metric in summary.metrics]
    worst, best = extremes(evaluation)
    passes = pass_at_k_bars(summary.pass_at_k)
    return {
        "view": view,
        "summary": summary,
        "reward": figure(summary.reward) if summary.reward else None,
        "failed": failed_of(summary),
        "coverage": coverage(summary),
        "histogram": histogram(summary),
        "passes": passes[:MOST_PASSES],
        "metrics": metrics[:MOST_METRICS],
        "more_metrics": len(metrics) - MOST_METRICS if len(metrics) > MOST_METRICS else 0,
        "extremes": [("Worst examples", worst), ("Best examples", best)],
        "measured": measured_lines(evaluation, inside=inside),
        "made": made_lines(evaluation, inside=inside),
        "fingerprint": evaluation_fingerprint(evaluation),
    }


def failed_of(summary: EvaluationSummary) -> int:
    """Return the number of rollouts without a reward."""
    return summary.stored - summary.scored


def measured_lines(evaluation: Evaluation, *, inside: bool) -> Lines:
    """Return what was measured as (name, text). Non-members do not see judges and hosts."""
    config, view = evaluation.config, evaluation_view(evaluation)
    lines = [("Environment", f"{view.environment}{f'@{view.version}' if view.version else ''}")]
    if evaluation.version is not None:
        lines += [("Package, SHA-256", evaluation.version.wheel_id)]
    count = int(config["num_examples"])
    lines += [("Model", view.model), ("Examples", f"{'all' if count < 0 else count} of split {config['split']}")]
    lines += [("Rollouts of each", str(config["rollouts_per_example"]))]
    lines += [("Seed", str(config["seed"]))] if config.get("seed") is not None else []
    known = measured(config).items()
    return lines + [(name, clip(hidden(value))) for name, value in known if inside or name not in _INSIDE]


def clip(value: object) -> str:
    """Return a setting's value as one line."""
    text = " ".join((value if isinstance(value, str) else pretty(value)).split())
    return text if len(text) <= CLIPPED else f"{text[:CLIPPED]}…"


def made_lines(evaluation: Evaluation, *, inside: bool) -> Lines:
    """Return who made the evaluation, when, and on what, as (name, text)."""
    runs = Run.objects.filter(Q(pk=evaluation.run_id) | Q(parent=evaluation.run_id)) if evaluation.run_id else ()
    workers = {run.worker for run in runs.select_related("worker")[:64] if run.worker} if runs else set()
    lines = [("Started by", evaluation.created_by.username), ("Started", instant(evaluation.created_at))]
    lines += [("Ended", instant(evaluation.finished_at))] if evaluation.finished_at else [("State", evaluation.state)]
    if not evaluation.is_hosted:
        lines.append(("Run", "elsewhere, and uploaded: the numbers are self-reported"))
    lines += worker_lines(sorted(workers, key=lambda worker: worker.name), inside=inside)
    return lines + library_lines(evaluation.version)


def instant(moment: datetime | None) -> str:
    """Format a moment in UTC, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""


def worker_lines(workers: Sequence[Worker], *, inside: bool) -> Lines:
    """Describe the workers' machines, with their names for members only."""
    found = []
    for worker in workers[:MOST_WORKERS]:
        facts = WorkerFacts.model_validate(worker.facts)
        gpus = ", ".join(gpu.name for gpu in facts.gpus[:4])
        parts = (
            worker.name if inside else "",
            facts.platform,
            gpus,
            f"release {facts.version}" if facts.version else "",
        )
        found.append(", ".join(part for part in parts if part))
    more = [f"and {len(workers) - MOST_WORKERS} more"] if len(workers) > MOST_WORKERS else []
    texts = list(dict.fromkeys(text for text in found if text))
    return [("Worker" if len(workers) == 1 else "Workers", "; ".join(texts + more))] if texts else []


def library_lines(version: Version | None) -> Lines:
    """Describe what the environment ran with, from its lock."""
    lock = Version.objects.filter(pk=version.pk).values_list("lock", flat=True).first() if version else None
    if not version or not lock:
        return []
    verifiers = f"verifiers {lock['verifiers']}, " if lock.get("verifiers") else ""
    count = len(lock.get("wheels", ()))
    text = f"Python {lock.get('python', '?')}, {verifiers}{count} locked package{'' if count == 1 else 's'}"
    return [("Libraries", text), ("Lock, SHA-256", version.lock_sha256)]


def extremes(evaluation: Evaluation) -> tuple[list[Extreme], list[Extreme]]:
    """Return the examples with the lowest and the highest mean reward, disjoint; none if there are too many."""
    try:
        means = example_means(example_tallies(evaluation), Aggregate.model_validate(evaluation.aggregate))
    except Invalid:
        return [], []
    ordered = sorted(means, key=lambda example: (means[example].reward, example))
    count = min(MOST_EXTREMES, len(ordered) // 2)
    worst, best = ordered[:count], ordered[::-1][:count]
    rows = rollouts_together([evaluation], [*worst, *best], most=1)
    asked = dict(rows.values_list("example", "asked"))
    return (
        [Extreme(example, means[example].reward, asked.get(example, "")) for example in worst],
        [Extreme(example, means[example].reward, asked.get(example, "")) for example in best],
    )
