"""Micro-batches over data-parallel ranks: equally many each, and like beside like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from workers.training.packing.microbatch import MicroBatch

Item = TypeVar("Item")


@dataclass(frozen=True)
class Cost:
    """Relative work of a micro-batch. Defaults: a decoder of 0.6-4B with about a tenth of its FLOPs in the head."""

    token: float = 1.0
    pair: float = 1e-4  # of a (query, key) pair: attention
    target: float = 0.1  # of a trained token: the head

    def of(self, batch: MicroBatch) -> float:
        """The work of a micro-batch; attention is causal within a segment and whole towards its ancestors."""
        pairs = 0.0
        for segment in range(len(batch.paths)):
            *ancestors, own = (end - start for start, end in batch.keys(segment))
            pairs += own * (sum(ancestors) + own / 2)
        return self.token * batch.tokens + self.pair * pairs + self.target * batch.targets


def split_until_even(
    bins: Sequence[tuple[int, ...]], ranks: int, cost: Callable[[tuple[int, ...]], float]
) -> list[tuple[int, ...]]:
    """Halve the costliest bins until their count divides by `ranks`; pad with empty bins when none can be halved."""
    result = list(bins)
    while len(result) % ranks:
        divisible = [number for number, places in enumerate(result) if len(places) > 1]
        if not divisible:
            return result + [()] * (-len(result) % ranks)
        costliest = max(divisible, key=lambda number: cost(result[number]))
        places = result.pop(costliest)
        result += [places[: len(places) // 2], places[len(places) // 2 :]]
    return result


def deal(items: Sequence[Item], costs: Sequence[float], ranks: int) -> tuple[tuple[Item, ...], ...]:
    """[ranks][k] items, len(items) / ranks to each rank; their count must divide.

    Collectives inside the model make the ranks wait for each other at every micro-batch, so a round costs its dearest:
    rounds are made of items of like cost. In a round the dearest goes to the rank that has done the least so far.
    """
    order = sorted(range(len(items)), key=lambda number: -costs[number])
    dealt: list[list[Item]] = [[] for _ in range(ranks)]
    load = [0.0] * ranks
    for start in range(0, len(order), ranks):
        idle_first = sorted(range(ranks), key=load.__getitem__)
        for rank, number in zip(idle_first, order[start : start + ranks], strict=True):
            dealt[rank].append(items[number])
            load[rank] += costs[number]
    return tuple(tuple(one) for one in dealt)
