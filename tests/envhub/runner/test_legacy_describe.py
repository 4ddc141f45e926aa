"""What the version's page says about a legacy environment's arguments."""

from __future__ import annotations

from typing import Any

from envhub.runner.legacy.describe import signature_schema


def load_environment(path: str, rows: int = 3, *more: Any, **others: Any) -> None:
    """As packages write it."""


def test_what_takes_all_other_arguments_is_none_of_its_own() -> None:
    assert signature_schema(load_environment) == {
        "path": {"annotation": "str"},
        "rows": {"annotation": "int", "default": 3},
    }
