"""`hub eval compare`: evaluations of one environment, paired by example."""

from __future__ import annotations

from enum import StrEnum
from string import ascii_uppercase
from typing import Annotated

import typer

from envhub.cli.evaluations.commands import EVALUATION, EvaluationId
from envhub.cli.evaluations.summary import score
from envhub.cli.terminal import completing
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.protocol.evals.command_line import command_like
from envhub.protocol.evals.comparisons import ComparisonMatrix, ComparisonView, MatrixPair, PairedDifference
from envhub.protocol.evals.evaluations import EvaluationSource, EvaluationView

EQUAL = 1e-9  # standard errors up to this are those of equal differences


class Order(StrEnum):
    """Which examples are listed first: those that are solved by some alone, those on which B (or any later one) is
    ahead, those on which A is, or by number."""

    FLIPS = "flips"
    BETTER = "better"
    WORSE = "worse"
    EXAMPLE = "example"


class Only(StrEnum):
    """Which examples are listed: those that A solves and another does not, those that another solves and A does not,
    or both."""

    REGRESSIONS = "regressions"
    IMPROVEMENTS = "improvements"
    FLIPS = "flips"


def compare(
    ctx: typer.Context,
    a: EvaluationId,
    b: EvaluationId,
    others: Annotated[
        list[str] | None,
        typer.Argument(help="Up to six more, each compared with A.", autocompletion=completing.evaluations),
    ] = None,
    sort: Annotated[
        Order | None, typer.Option(help="Order of the examples (default: better; for more than two: flips).")
    ] = None,
    only: Annotated[Only | None, typer.Option(help="Which examples; solved is a mean reward of at least 0.5.")] = None,
    examples: Annotated[int, typer.Option(min=0, max=1000, help="How many examples to list.")] = 10,
    json: JsonFlag = False,
) -> None:
    """Compare evaluations with the first one: paired difference, standard error and 95 % interval."""
    session = current(ctx)
    if others or only or sort is Order.FLIPS:
        ids = [a, b, *(EVALUATION(ctx, text) for text in others or ())]
        order = sort.value if sort else None
        matrix = session.hub.evaluations.compare_many(
            ids, sort=order, only=only.value if only else None, limit=examples
        )
        session.show(matrix, lambda: _print_matrix(session, matrix))
        first, *rest = (view.id for view in matrix.evaluations)
    else:
        order = (sort or Order.BETTER).value
        found = session.hub.evaluations.compare(a, b, sort=order, limit=examples)
        session.show(found, lambda: _print(session, found))
        first, rest = found.a.id, [found.b.id]
    chosen = {"sort": order, "only": only.value if only else None}
    query = "".join([*(f"&b={one}" for one in rest), *(f"&{name}={value}" for name, value in chosen.items() if value)])
    session.note(f"{session.hub.url}/evaluations/compare?a={first}{query}")


def _print_matrix(session: Session, found: ComparisonMatrix) -> None:
    names = ascii_uppercase[: len(found.evaluations)]
    session.fields({
        "environment": found.evaluations[0].environment,
        **{name: _side(view) for name, view in zip(names, found.evaluations, strict=True)},
        "examples": f"{found.examples} that at least two have scored"
        + (f"; left out: {found.alone} that one alone has" if found.alone else ""),
    })  # fmt: skip
    rows = [_pair_row(names, pair) for pair in found.pairs]
    session.table(
        ("pair", "means", "examples", "difference", "95 % interval", "p (Holm)", "ahead", "behind", "clear"), rows
    )
    if found.rows:
        shown = [
            (
                row.example,
                *("" if reward is None else reward for reward in row.rewards),
                row.broken or "",
                row.fixed or "",
            )
            for row in found.rows
        ]
        session.table(("example", *names, "broken", "fixed"), shown)
        if found.found > len(found.rows):
            session.note(f"{len(found.rows)} of {found.found} examples; --examples lists more")


def _pair_row(names: str, pair: MatrixPair) -> tuple[object, ...]:
    name, found = f"{names[pair.b]} - {names[pair.a]}", pair.difference
    if found is None:
        return (name, "", 0, "", "", "", pair.better, pair.worse, "")
    p = "" if pair.p_adjusted is None else f"{pair.p_adjusted:.2g}"
    means, clear = f"{found.b:.4g} and {found.a:.4g}", "yes" if pair.is_clear else "no"
    difference = (f"{found.mean:+.4g}", _interval(found), p)
    return (name, means, found.count, *difference, pair.better, pair.worse, clear)


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
        _print_apart(session, found)
        return
    rows = [_row(item) for item in (found.reward, *found.metrics)]
    session.table(("", "A", "B", "B - A", "std error", "95 % interval", "examples"), rows)
    if found.pairs:
        pairs = [(pair.example, pair.a, pair.b, f"{pair.difference:+.4g}") for pair in found.pairs]
        session.table(("example", "A", "B", "B - A"), pairs)


def _print_apart(session: Session, found: ComparisonView) -> None:
    """Each side's own mean, and the command that makes them comparable."""
    sides = (("A", found.a), ("B", found.b))
    session.table(("", "reward over all of its examples"), [(name, score(view.summary)) for name, view in sides])
    rows = ": the two versions have different rows" if found.a.version != found.b.version else ""
    whose = "the version of the first, with" if found.a.version else "the same environment, with"
    session.note(
        f"No example was scored by both{rows}. To compare them, evaluate the second model on {whose} the same split, "
        f"number of examples and arguments:\n{command_like(found.a, found.b.model)}"
    )


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
    error = "" if item.std_error is None else item.std_error
    return (item.name, item.a, item.b, f"{item.mean:+.4g}", error, _interval(item), item.count)


def _interval(item: PairedDifference) -> str:
    """The 95 % interval; there is none for one example or equal differences, which say nothing about the next."""
    if item.std_error is None:
        return ""
    return f"{item.low:+.4g} to {item.high:+.4g}" if item.std_error > EQUAL else "all equal"


def _left_out(found: ComparisonView) -> str:
    parts = {
        "scored by A alone": found.only_a,
        "by B alone": found.only_b,
        "another row under the same number": found.other_row,
    }
    return ", ".join(f"{count} {text}" for text, count in parts.items() if count)
