"""`hub eval compare`: two evaluations of one environment, paired by example."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from envhub.cli.evaluations.commands import EvaluationId
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.protocol.comparisons import ComparisonView, PairedDifference
from envhub.protocol.evals import EvaluationSource, EvaluationView


class Order(StrEnum):
    """Which examples are listed first: those on which B is ahead, those on which A is, or by number."""

    BETTER = "better"
    WORSE = "worse"
    EXAMPLE = "example"


def compare(
    ctx: typer.Context,
    a: EvaluationId,
    b: EvaluationId,
    sort: Annotated[Order, typer.Option(help="Order of the examples.")] = Order.BETTER,
    examples: Annotated[int, typer.Option(min=0, max=1000, help="How many examples to list.")] = 10,
    json: JsonFlag = False,
) -> None:
    """Compare evaluation B with A: the paired difference, its standard error and 95 % interval."""
    session = current(ctx)
    found = session.hub.evaluations.compare(a, b, sort=sort.value, limit=examples)
    session.show(found, lambda: _print(session, found))
    query = f"?a={found.a.id}&b={found.b.id}&sort={sort.value}"
    session.note(f"{session.hub.url}/evaluations/compare{query}")


def _print(session: Session, found: ComparisonView) -> None:
    session.fields({
        "environment": found.a.environment,
        "A": _side(found.a),
        "B": _side(found.b),
        "verdict": verdict(found),
        "examples": f"{found.examples}: B ahead on {found.better}, A ahead on {found.worse}",
        "left out": _left_out(found),
    })  # fmt: skip
    if found.other_row and EvaluationSource.PUSHED in (found.a.source, found.b.source):
        session.note("note: what this hub did not run is matched by each example's number, prompt and answer")
    if found.reward is None:
        return
    rows = [_row(item) for item in (found.reward, *found.metrics)]
    session.table(("", "A", "B", "B - A", "std error", "95 % interval", "examples"), rows)
    if found.pairs:
        pairs = [(pair.example, pair.a, pair.b, f"{pair.difference:+.4g}") for pair in found.pairs]
        session.table(("example", "A", "B", "B - A"), pairs)


def verdict(found: ComparisonView) -> str:
    """What may be concluded from the rewards."""
    if found.reward is None:
        return "no example was scored by both"
    if not found.reward.is_clear:
        return "no clear difference"
    return "B is better" if found.reward.mean > 0 else "A is better"


def _side(view: EvaluationView) -> str:
    version = f" on {view.version}" if view.version else ""
    name = f" ({view.name})" if view.name else ""
    running = "" if view.state.is_final else f", still {view.state}"
    return f"{view.id} {view.model}{version}{name}{running}"


def _row(item: PairedDifference) -> tuple[object, ...]:
    if item.std_error is None:
        return (item.name, item.a, item.b, f"{item.mean:+.4g}", "", "", item.count)
    interval = f"{item.low:+.4g} to {item.high:+.4g}"
    return (item.name, item.a, item.b, f"{item.mean:+.4g}", item.std_error, interval, item.count)


def _left_out(found: ComparisonView) -> str:
    parts = {
        "scored by A alone": found.only_a,
        "by B alone": found.only_b,
        "another row under the same number": found.other_row,
    }
    return ", ".join(f"{count} {text}" for text, count in parts.items() if count)
