"""Whatever arrives as a configuration is read or refused with TrainingConfigError: the hub answers 422, never 500."""

from __future__ import annotations

import copy
import tomllib
from contextlib import suppress
from typing import Any

from envhub.protocol.training.toml import TrainingConfigError, read_training_table
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.envhub.protocol.training import published_configs as published

BASES = [tomllib.loads(text) for text in (published.EVERYTHING, published.RETIRED, published.GUIDE)]
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
ODD: st.SearchStrategy[Any] = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.text(max_size=5), SCALARS, max_size=3),
    st.builds(lambda: [[]]),
    st.builds(lambda: [{}]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in a table."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_damaged_configuration_is_refused_properly(data: st.DataObject) -> None:
    table = copy.deepcopy(data.draw(st.sampled_from(BASES)))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(places(table)[1:] or [("model",)]))
        parent: Any = table
        for part in path[:-1]:
            parent = parent[part]
        parent[path[-1]] = copy.deepcopy(data.draw(ODD))
    with suppress(TrainingConfigError):
        read_training_table(table)


@given(st.dictionaries(st.sampled_from([*BASES[0], *BASES[1], "orchestrator", "x"]), ODD, max_size=4))
@settings(max_examples=100, deadline=None)
def test_nonsense_is_refused_properly(table: dict[str, Any]) -> None:
    with suppress(TrainingConfigError):
        read_training_table(table)
