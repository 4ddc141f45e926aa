"""What all tests of workers share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from workers.sandbox import agent_python


@pytest.fixture(scope="session", autouse=True)
def one_interpreter_of_the_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Made once, not for the root of each test's sandbox: that is half a second of CPU."""
    make = agent_python._find_or_make

    @cache
    def made() -> Path:
        return make(tmp_path_factory.mktemp("sandbox"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent_python, "_find_or_make", lambda root: made())
        yield
