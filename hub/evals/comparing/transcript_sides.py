"""Shows transcripts side by side, a page at a time, from the first turn that differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from envhub.protocol.evals.rollouts import RolloutRecord

from hub.evals.comparing.matrix import LETTERS
from hub.evals.comparing.side_turns import ShownTurn, said, shown_turn
from hub.evals.reading.example_groups import Square
from hub.evals.reading.opened_records import OpenedRecord
from hub.evals.reading.transcript import Transcript, Turn

KEPT = 2  # turns shown before the first difference


@dataclass(frozen=True)
class Side:
    """An attempt to be shown beside others; `record` is None if there is no attempt with that number."""

    title: str  # of the evaluation or training run that it belongs to
    page: str  # address of that evaluation or training run; empty if the viewer may not see it
    attempt: str  # which attempt it is, in words
    address: str  # address of the attempt's own page; its pictures are below `pictures/`
    record: RolloutRecord | None
    outcome: str = ""  # shown instead of the reward if there is none
    squares: tuple[tuple[str, Square], ...] = ()  # of the attempts, each with the address that shows it here


@dataclass(frozen=True)
class Column:
    """A side as the page shows it."""

    letter: str
    side: Side
    turns: tuple[ShownTurn, ...]
    more: int  # turns after these
    differs_at: int | None  # the number of its first turn that differs from A
    difference: str  # address of that turn, on this page or on another
    as_a: bool  # whether all its turns are the same as A's


def side_by_side(sides: Sequence[Side], start: int | None, address: Callable[[int], str]) -> dict[str, Any]:
    """Return the context of `evals/_sides.html`.

    start: the position of the first turn to show; None starts shortly before the first turn that differs.
    address: returns the address of the page that starts at a position.
    """
    whole = [OpenedRecord(side.record).transcript() if side.record else Transcript([], []) for side in sides]
    differ = [None, *(first_difference(whole[0].turns, one.turns) for one in whole[1:])]
    parting = min((one for one in differ if one is not None), default=None)
    if start is None:
        start = max(0, (parting or 0) - KEPT)
    stop = _stop(whole, start)
    page = _Page(whole, range(start, stop), {one for one in differ if one is not None}, address)
    columns = [
        _column(letter, side, own, place, page)
        for letter, side, own, place in zip(LETTERS, sides, whole, differ, strict=False)
    ]
    earlier = max(one.before(start).start for one in whole) if start else None
    return {
        "columns": columns,
        "hidden": start,
        "alike": parting is None or start <= parting,
        "from_start": address(0),
        "earlier": address(earlier) if earlier else "",
        "later": address(stop) if any(column.more for column in columns) else "",
    }


def _stop(whole: Sequence[Transcript], start: int) -> int:
    """Return where the page ends: with the shortest window that leaves turns over, so that all columns go on there."""
    stops = [one.window(start).stop for one in whole]
    cut = [stop for stop, one in zip(stops, whole, strict=True) if stop < len(one.turns)]
    return min(cut) if cut else max(stops)


@dataclass(frozen=True)
class _Page:
    """What the columns of a page share. parted: the positions of first differences."""

    whole: Sequence[Transcript]
    shown: range
    parted: Set[int]
    address: Callable[[int], str]


def _column(letter: str, side: Side, own: Transcript, differs: int | None, page: _Page) -> Column:
    number = own.turns[differs].number if differs is not None and differs < len(own.turns) else None
    here = f"#{letter}-differs"
    return Column(
        letter=letter,
        side=side,
        turns=tuple(_shown(own, place, side, page) for place in page.shown if place < len(own.turns)),
        more=max(0, len(own.turns) - page.shown.stop),
        differs_at=number,
        difference=here if differs in page.shown else f"{page.address(max(0, (differs or 0) - KEPT))}{here}",
        as_a=differs is None,
    )


def _shown(own: Transcript, place: int, side: Side, page: _Page) -> ShownTurn:
    """Show a turn, with its long texts from where A (for A: the first of the others) differs at the same place."""
    turn, first = own.turns[place], page.whole[0]
    others = page.whole[1:] if own is first else (first,)
    there = (one.turns[place] for one in others if place < len(one.turns))
    beside = next((other for other in there if said(other) != said(turn)), None)
    return shown_turn(turn, beside, f"{side.address}/pictures", opens=place in page.parted)


def first_difference(one: Sequence[Turn], other: Sequence[Turn]) -> int | None:
    """Return the position of the first turn in which two transcripts differ; None if they are the same."""
    pairs = zip(one, other, strict=False)
    found = next((place for place, (a, b) in enumerate(pairs) if said(a) != said(b)), min(len(one), len(other)))
    return found if found < max(len(one), len(other)) else None
