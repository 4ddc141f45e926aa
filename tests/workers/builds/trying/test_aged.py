"""A failed load is tried with older dependencies when its root cause lies in one, or speaks of what one has lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.builds.test_search import LIBRARY, SOURCE, Build, build, hub, tried
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.trying.aged import may_be_aged

__all__ = ["build", "hub"]  # fixtures
SITE = "/opt/venv/lib/python3.11/site-packages"
OWN = f'  File "{SITE}/mine/env.py", line 3, in load_environment\n    x\n'
OTHER = f'  File "{SITE}/other/client.py", line 9, in make\n    x\n'
LIBRARY_FRAME = f'  File "{SITE}/verifiers/envs/browser.py", line 2, in <module>\n    x\n'


@pytest.mark.parametrize(
    ("frames", "said", "expected"),
    [
        (OWN + LIBRARY_FRAME, "ImportError: cannot import name 'Client' from 'other' (/opt/x.py)", True),
        (OWN, "ModuleNotFoundError: No module named 'other.core'", True),
        (OWN, "AttributeError: module 'other' has no attribute 'Client'", True),
        (OWN, "TypeError: Client.__init__() got an unexpected keyword argument 'model'", True),
        (OWN + OTHER, "ValueError: scripts are no longer supported", True),
        (OWN, "ImportError: cannot import name 'Client' from 'mine.core' (/opt/x.py)", False),
        (OWN, "AttributeError: module 'verifiers' has no attribute 'Env'", False),
        (OWN, "ZeroDivisionError: division by zero", False),
        (OWN + OTHER, "FileNotFoundError: [Errno 2] No such file or directory: 'rows.json'", False),
        ("", "", False),
    ],
)
def test_the_root_cause_decides(frames: str, said: str, expected: bool) -> None:
    trace = f"Traceback (most recent call last):\n{frames}{said}\n"
    assert may_be_aged("load_failed", trace, "mine") is expected


def test_a_failure_that_the_runner_explains_is_not_aged() -> None:
    trace = f"Traceback (most recent call last):\n{OWN}{OTHER}TypeError: x\n"
    assert not may_be_aged("bad_arguments", trace, "mine")


@pytest.fixture
def dated(index: PackageIndex, tmp_path: Path) -> Callable[..., None]:
    """Offers wheels of a dependency with its releases' days: version -> (day, its source)."""

    def add(name: str, **releases: tuple[str, str]) -> None:
        for version, (day, source) in releases.items():
            wheel = make_wheel(tmp_path, name, version.strip("v").replace("_", "."), {f"{name}.py": source})
            index.add(wheel)
            index.uploaded[wheel.name] = f"{day}T10:00:00Z"

    return add


USES = "import client\n" + SOURCE.replace("return", "client.Client\n    return")
DAYS = {"0.1.14": "2026-05-07", "0.2.1": "2026-07-20"}


async def test_a_dependency_that_has_lost_a_name_is_taken_as_it_was_before_the_next_release_of_verifiers(
    build: Build, index: PackageIndex, dated: Callable[..., None]
) -> None:
    dated("client", v1_0=("2026-04-01", "class Client: ..."), v2_0=("2026-08-01", ""))
    index.uploaded |= {f"verifiers-{version}-py3-none-any.whl": f"{day}T12:00:00Z" for version, day in DAYS.items()}
    report = await build(USES, dict.fromkeys(DAYS, LIBRARY), "verifiers<0.2", "client")
    assert tried(report) == [("0.1.14", "load", False), ("0.1.14", "", True)]
    assert report.tried[1].message == "with what the index had before 2026-07-20"
    assert report.lock is not None
    assert {"client": "1.0"}.items() <= {wheel.name: wheel.version for wheel in report.lock.wheels}.items()


async def test_dependencies_with_which_a_package_loads_are_the_newest(
    build: Build, index: PackageIndex, dated: Callable[..., None]
) -> None:
    dated("client", v1_0=("2026-04-01", "class Client: ..."), v2_0=("2026-08-01", "class Client: ..."))
    index.uploaded |= {f"verifiers-{version}-py3-none-any.whl": f"{day}T12:00:00Z" for version, day in DAYS.items()}
    report = await build(USES, dict.fromkeys(DAYS, LIBRARY), "verifiers<0.2", "client")
    assert tried(report) == [("0.1.14", "", True)]
    assert report.lock is not None
    assert "2.0" in {wheel.version for wheel in report.lock.wheels if wheel.name == "client"}


async def test_a_fault_that_older_dependencies_do_not_cure_is_told_as_it_is_today(
    build: Build, index: PackageIndex, dated: Callable[..., None]
) -> None:
    dated("client", v1_0=("2026-04-01", ""), v2_0=("2026-08-01", ""))
    index.uploaded |= {f"verifiers-{version}-py3-none-any.whl": f"{day}T12:00:00Z" for version, day in DAYS.items()}
    report = await build(USES, dict.fromkeys(DAYS, LIBRARY), "verifiers==0.1.14", "client")
    assert tried(report) == [("0.1.14", "load", True), ("0.1.14", "load", False)]
    check = next(check for check in report.checks if check.name == "load")
    assert "0.1.14 (index before 2026-07-20), load: " in check.detail
