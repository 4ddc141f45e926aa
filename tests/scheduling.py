"""A pytest plugin: which tests must share a process when several run (`-n 3`).

An end-to-end file shares one hub, which takes long to fill; every other test goes wherever there is room. By path: the
`xdist_group` marks of pytest-xdist 3.8 have no effect under pytest 9.2.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARING = "tests/e2e/"


def group_of(nodeid: str) -> str:
    """Tests with the same group run in the same process."""
    return nodeid.partition("::")[0] if nodeid.startswith(SHARING) else nodeid


class SharedHub(LoadScopeScheduling):
    """Groups first, the largest before the others, then single tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedHub:
    """The controller of the processes asks for it."""
    return SharedHub(config, log)
