"""One evaluation by several runs: what each reports of its share of the work, and what the hub answers.

The first run of an evaluation may be joined by others (shards). Each holds ranges of examples; nobody else runs those.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from envhub.protocol.base import Count, Number, Request, Response
from envhub.protocol.runs import RunState

MOST_RANGES = 10_000  # that one run may hold
MOST_IN_FLIGHT = 1024  # rollouts of one run


class DoneExample(Response):
    """Stored rollouts of one example."""

    example: int
    example_hash: str
    rollouts: tuple[int, ...]


class ExampleRange(Response):
    """Examples first .. stop - 1 for one run. `done`: those of them of which rollouts are stored already."""

    first: int
    stop: int
    done: tuple[DoneExample, ...] = ()


class HeldRange(Request):
    """A range that a run still works on. Less than it was given: the rest has not been begun and goes to others."""

    first: Count
    stop: Count


class ShardReport(Request):
    """Where one run stands. The hub compares `held` and `done` with what it gave: all else is free again, so that a
    lost answer loses no example. `number` counts the run's reports; the same number again is the same report.
    """

    number: int = Field(ge=1)
    examples: Count  # of the whole evaluation
    grouped: bool  # an example's rollouts are scored together, so one run does them all
    held: tuple[HeldRange, ...] = Field(default=(), max_length=MOST_RANGES)
    done: tuple[HeldRange, ...] = Field(default=(), max_length=MOST_RANGES)  # every rollout of them is stored
    in_flight: Count = 0  # rollouts
    unbegun: Count = 0  # rollouts of `held`
    finished: Count = 0  # rollouts that this attempt has run
    rate: Number = 0.0  # rollouts a second lately; before the first has finished, at most; 0: nobody knows yet
    wants: Count = 0  # rollouts of further work


class ShardOrders(Response):
    """The hub's answer to a report."""

    ranges: tuple[ExampleRange, ...] = ()  # new ones
    concurrency: int  # rollouts that this run may have in flight now; all runs together have the evaluation's number
    share: int  # what `concurrency` is going to be when the others have heard of it
    stored: int = 0  # rollouts of the whole evaluation
    give_back: int = 0  # rollouts not begun, from the end of what is held: others have nothing to do
    end: bool = False  # end when nothing is in flight any more; what is not begun is given back


class ShardView(Response):
    """One run of an evaluation that is spread over several, as the API shows it."""

    run_id: str
    worker: str  # its name; "" while no worker has it
    state: RunState
    first: bool  # the evaluation's own run; it ends when all work is done
    finished: int = 0  # rollouts, of its current attempt
    in_flight: int = 0
    rate: float = 0.0  # rollouts a second
    told_at: datetime | None = None


class ShardViews(Response):
    """The runs of one evaluation that work on it or wait to, its own first."""

    shards: tuple[ShardView, ...]
