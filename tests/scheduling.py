"""A pytest plugin: which tests share a process when several run (`-n 5`), and which run first.

A file stays together, so that what its fixtures start is started once; those of the runner, so that each release's
interpreter is prepared once. End-to-end files share two hubs, which take long to fill but would be the longest chain
as one; those that restart their hub have another, those that attack it a fourth. What waits for processes goes first:
the end is short tests. By path: the `xdist_group` marks of pytest-xdist 3.8 have no effect under pytest 9.2.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

RESTARTING = "tests/e2e/test_kills.py"
ATTACKING = "tests/e2e/test_hostile.py"
ON_THE_SECOND_HUB = ("packages", "published", "backup_drill", "faults")  # about half of the time of all
PRODUCTION = "tests/e2e/test_production.py"
RUNNERS = "tests/envhub/runner/"
ENGINES = {f"tests/contract/test_{name}.py" for name in ("engines", "engine_keys", "policy_engines")}
LONG = ["tests/e2e/", RUNNERS, "tests/workers/training/", "tests/contract/", "tests/workers/", "tests/envhub/"]


def group_of(nodeid: str) -> str:
    """Tests with the same group run in the same process."""
    path = nodeid.partition("::")[0]
    if path == RESTARTING:
        return "a hub that is restarted"
    if path == ATTACKING:
        return "a hub that is attacked"
    if path.startswith(RUNNERS):
        return RUNNERS
    if path in ENGINES:
        return "engines"
    if not path.startswith("tests/e2e/") or path == PRODUCTION:
        return path
    return "a second hub" if path in {f"tests/e2e/test_{name}.py" for name in ON_THE_SECOND_HUB} else "a hub"


def rank(nodeid: str) -> int:
    """Lower ranks run first."""
    return next((number for number, prefix in enumerate(LONG) if nodeid.startswith(prefix)), len(LONG))


class SharedHub(LoadScopeScheduling):
    """Groups in the order of their tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long before short; otherwise as pytest-randomly left them."""
    items.sort(key=lambda item: rank(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedHub:
    """The controller of the processes asks for it."""
    return SharedHub(config, log)
