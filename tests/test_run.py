"""The lists of `tests/run.py`."""

from __future__ import annotations

from pathlib import Path

from tests.run import HUB, ON_SQLITE


def test_no_browser_test_of_the_hub_is_left_out_where_there_is_postgres() -> None:
    files = [path for path in Path(HUB).rglob("test_*.py") if "mark.browser" in path.read_text()]
    listed = [Path(path) for path in ON_SQLITE]
    assert files
    assert [path for path in files if not {path, *path.parents} & set(listed)] == []
