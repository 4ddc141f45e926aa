"""Compares the configurations of several runs, setting by setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from envhub.packaging.conversation import clipped, pretty
from envhub.protocol.base import Json

_ABSENT = "–"
_NOT_OF_INTEREST = {"name"}


@dataclass(frozen=True)
class Setting:
    """One setting that differs; `texts` has its value in each run, in their order."""

    name: str
    texts: tuple[str, ...]


def differing(configurations: Sequence[Mapping[str, Json]]) -> list[Setting]:
    """Return the settings (`trainer.rank`, `env.0.id`) that differ between runs, in order of first appearance."""
    flat = [dict(_leaves("", one)) for one in configurations]
    names = dict.fromkeys(name for one in flat for name in one if name not in _NOT_OF_INTEREST)
    found = (Setting(name, tuple(one.get(name, _ABSENT) for one in flat)) for name in names)
    return [one for one in found if len(set(one.texts)) > 1]


def _leaves(name: str, value: Json | Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _leaves(f"{name}.{key}" if name else key, part)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for place, part in enumerate(value):
            yield from _leaves(f"{name}.{place}", part)
    elif value is not None and value != {}:
        yield name, clipped(value) if isinstance(value, str) else pretty(value)
