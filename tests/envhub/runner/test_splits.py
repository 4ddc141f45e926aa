"""An environment without examples of its own for evaluations says whose rows they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from envhub.runner.legacy import describe


@pytest.mark.parametrize(("own", "rows_of"), [([{"question": "q"}], None), (None, "train")])
def test_a_split_that_falls_back_says_so(own: list[Any] | None, rows_of: str | None) -> None:
    train = [{"question": "q"}]
    adapter: Any = SimpleNamespace(leaves=(), split={"train": train, "eval": own or train}.get)
    found = [describe._split(adapter, name, 1) or {} for name in ("train", "eval")]
    assert [split.get("rows_of") for split in found] == [None, rows_of]
