"""An evaluation's summary for people: score with its error, pass@k, metrics, coverage, tokens."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from envhub.cli.terminal.session import Session
from envhub.protocol.evals.evaluations import EvaluationSource, EvaluationSummary, EvaluationView, PassAtK
from envhub.protocol.evals.measured import in_words
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.models.money import dollars
from envhub.protocol.runs import RunState

SCORED = {Outcome.OK, Outcome.TRUNCATED}


def print_summary(session: Session, view: EvaluationView) -> None:
    """The whole summary, to standard output."""
    summary = view.summary
    environment = f"{view.environment}@{view.version}" if view.version else view.environment
    session.fields({
        "evaluation": view.id, "environment": environment,
        "model": view.model, "settings": ", ".join(in_words(view.config)), "source": origin(view),
        "state": view.state, "reward": score(summary),
        "coverage": coverage(summary), "pass@k": pass_at_k(summary), "tokens": tokens(summary),
        "cost": dollars(summary.cost), "trace": view.trace_id,
    })  # fmt: skip
    if summary.metrics:
        rows = [(item.name, item.mean, plus_minus(item.std_error), item.count) for item in summary.metrics]
        session.table(("metric", "mean", "std error", "rollouts"), rows)
    if (there := fewer_examples(view)) is not None:
        session.note(f"the environment has {there} examples, not {view.config['num_examples']}")
    for reason in _reasons(session, view):
        session.note(reason)


def fewer_examples(view: EvaluationView) -> int | None:
    """How many the environment has, when more were asked for."""
    there = view.summary.planned // view.config["rollouts_per_example"]
    hosted = view.source is EvaluationSource.HOSTED and view.state == RunState.SUCCEEDED
    return there if hosted and there < view.config["num_examples"] else None


def print_with_failure(session: Session, view: EvaluationView) -> None:
    """The summary, which workers are at it, and why the evaluation failed: for who has not followed it."""
    print_summary(session, view)
    if view.run_id and not view.state.is_final:
        _print_shards(session, view)
    failure = session.hub.runs.get(view.run_id).failure if view.state == RunState.FAILED and view.run_id else None
    if failure:
        text = f"{failure.message} ({failure.kind}, {failure.code})"
        session.fields({"failure": text, "hint": failure.hint})


def _print_shards(session: Session, view: EvaluationView) -> None:
    """Where it runs, when that is on more than one worker."""
    shards = session.hub.evaluations.shards(view.id).shards
    if len(shards) > 1:
        rows = [(item.worker or "-", item.state, item.finished, item.in_flight, f"{item.rate:.3g}", item.run_id)
                for item in shards]  # fmt: skip
        session.table(("worker", "state", "finished", "in flight", "a second", "run"), rows)


def _reasons(session: Session, view: EvaluationView) -> list[str]:
    """Why rollouts failed: the three commonest among the newest fifty failures."""
    if not any(count for outcome, count in view.summary.outcomes.items() if outcome not in SCORED):
        return []
    rows = islice(session.hub.evaluations.rollouts(view.id, outcome="failed"), 50)
    counts = Counter(f"{row.failure_kind}: {row.failure_message}" for row in rows)
    return [reason for reason, _ in counts.most_common(3)]


def page(session: Session, view: EvaluationView) -> str:
    """Where people look at it."""
    return f"{session.hub.url}/evaluations/{view.id}"


def origin(view: EvaluationView) -> str:
    """`hosted`, or `self-reported` as its page says."""
    return "self-reported" if view.source is EvaluationSource.PUSHED else str(view.source)


def score(summary: EvaluationSummary) -> str:
    """`0.432 ± 0.012`, `1.000 (>= 0.861)` if all rewards are 1, or a dash before the first scored rollout.

    With as many digits as on the pages.
    """
    reward = summary.reward
    if reward is None:
        return "-"
    error = reward.std_error
    known = "" if error is None else f" ± {_rounded(error)}" if error else " (all alike)"
    return f"{_rounded(reward.mean)}{_limit(reward.mean, reward.limit) or known}"


def _rounded(value: float) -> str:
    return f"{value:.3f}" if not value or 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def coverage(summary: EvaluationSummary) -> str:
    """How many of the planned rollouts are scored, and what became of the others."""
    parts = ", ".join(f"{count} {name}" for name, count in sorted(summary.outcomes.items()) if count)
    return f"{summary.scored}/{summary.planned} scored" + (f" ({parts})" if parts else "")


def pass_at_k(summary: EvaluationSummary) -> str:
    """One entry for each k that doubles the last, and for the largest."""
    found = [item for item in summary.pass_at_k if item.k.bit_count() == 1 or item is summary.pass_at_k[-1]]
    return "  ".join(f"{item.k}: {item.value:.3g}{_bound(item) or _error(item.std_error)}" for item in found)


def _bound(item: PassAtK) -> str:
    if item.bound is None:
        return ""
    return _limit(item.value, item.value - item.bound if item.value else item.bound)


def _limit(value: float, limit: float | None) -> str:
    return "" if limit is None else f" ({'>=' if value else '<='} {limit:.3g})"


def tokens(summary: EvaluationSummary) -> str:
    """Prompt and completion tokens, judges apart."""
    text = f"{summary.usage.prompt_tokens:,} in, {summary.usage.completion_tokens:,} out"
    judge = summary.judge_usage
    if judge.prompt_tokens or judge.completion_tokens:
        text += f"; judges {judge.prompt_tokens:,} in, {judge.completion_tokens:,} out"
    return text


def plus_minus(std_error: float | None) -> str:
    """The standard error alone."""
    if std_error is None:
        return ""
    return f"± {std_error:.2g}" if std_error else "(all alike)"


def _error(std_error: float | None) -> str:
    return f" {plus_minus(std_error)}" if std_error is not None else ""
