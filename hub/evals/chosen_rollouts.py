"""Chosen examples and rollouts, as an address names them: `3,10-14` are examples, `3.0` is one rollout of example 3."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from django.db.models import Q

from hub.core.errors import Invalid

MOST = 100  # examples and rollouts together
_PART = re.compile(r"(\d{1,9})(?:\.(\d{1,4})|-(\d{1,9}))?")


def written(examples: Iterable[int]) -> str:
    """Write a set of examples, in order, with ranges where numbers follow each other."""
    places = enumerate(sorted(set(examples)))
    runs = ([number for _, number in run] for _, run in groupby(places, key=lambda item: item[1] - item[0]))
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def chosen(text: str) -> Q:
    """Return the condition that selects the rollouts which `text` names. Raises Invalid."""
    whole: set[int] = set()
    single: set[tuple[int, int]] = set()
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise _invalid(text)
        first = int(found[1])
        if found[2] is not None:
            single.add((first, int(found[2])))
        else:
            whole.update(range(first, min(int(found[3] or first), first + MOST) + 1))
        if len(whole) + len(single) > MOST:
            raise _invalid(text)
    of_whole = Q(example__in=whole)
    if not single:
        return of_whole
    either = of_whole
    for example, rollout in sorted(single):
        either |= Q(example=example, rollout=rollout)
    # The list of examples lets the index find the rows; the alternatives alone would not.
    return Q(example__in=whole | {example for example, _ in single}) & either


def _invalid(text: str) -> Invalid:
    return Invalid(
        f"`among` names at most {MOST} examples and rollouts, as in 3,10-14,20.1", fields={"among": text[:100]}
    )
