"""A failed load is tried with older dependencies when its root cause lies in one, or speaks of what one has lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from envhub.protocol.registry.builds import LockedWheel

from tests.workers.builds.test_search import LIBRARY, SOURCE, Build, build, hub, tried
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.trying.aged import line_before, loser, may_be_aged

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


async def test_a_dependency_that_fails_is_taken_as_it_was_before_the_next_release_of_verifiers(
    build: Build, index: PackageIndex, dated: Callable[..., None]
) -> None:
    dated("client", v1_0=("2026-04-01", "class Client: ..."), v2_0=("2026-08-01", "raise OverflowError"))
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


@pytest.mark.matrix
async def test_a_fault_that_older_dependencies_do_not_cure_is_told_as_it_is_today(
    build: Build, index: PackageIndex, dated: Callable[..., None]
) -> None:
    dated("client", v1_0=("2026-04-01", ""), v2_0=("2026-08-01", ""))
    index.uploaded |= {f"verifiers-{version}-py3-none-any.whl": f"{day}T12:00:00Z" for version, day in DAYS.items()}
    report = await build(USES, dict.fromkeys(DAYS, LIBRARY), "verifiers==0.1.14", "client")
    day = "with what the index had before 2026-07-20"
    assert [(one.stage, one.message.split("; ")[:-1]) for one in report.tried] == [
        ("load", []),
        ("load", ["with client<2"]),
        ("resolve", ["with client<1"]),
        ("load", [day]),
        ("resolve", [day, "with client<1"]),
    ]
    assert [one.chosen for one in report.tried] == [True, False, False, False, False]
    check = next(check for check in report.checks if check.name == "load")
    assert "0.1.14 (index before 2026-07-20), load: " in check.detail


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ImportError: cannot import name 'Client' from 'other.core' (unknown location)", "other"),
        ("ModuleNotFoundError: No module named 'other.core'", "other"),
        ("AttributeError: module 'other' has no attribute 'Client'", "other"),
        ("TypeError: Client.__init__() got an unexpected keyword argument 'model'", ""),
        ("AttributeError: type object 'Client' has no attribute 'make'", ""),
    ],
)
def test_who_has_lost_a_name_is_read_from_what_is_said(said: str, expected: str) -> None:
    assert loser(f"Traceback (most recent call last):\n{OWN}{said}\n") == expected


@pytest.mark.parametrize(
    ("version", "line"),
    [("2.3", "the-client<2"), ("0.4.1", "the-client<0.4"), ("0.0.3", ""), ("2024.8.1", "the-client<2024")],
)
def test_the_line_before_ends_where_the_present_one_began(tmp_path: Path, version: str, line: str) -> None:
    wheels = []
    for name, of, files in (("another", "1.0", {"else.py": ""}), ("the-client", version, {"other/__init__.py": ""})):
        path = make_wheel(tmp_path, name, of, files)
        locked = LockedWheel(name=name, version=of, filename=path.name, sha256="0" * 64, size=1, owned=False)
        wheels.append((locked, path))
    assert line_before("other", wheels) == line
    assert line_before("absent", wheels) == ""
    third = make_wheel(tmp_path, "third", "5.0", {"other/part.py": ""})
    locked = LockedWheel(name="third", version="5.0", filename=third.name, sha256="0" * 64, size=1, owned=False)
    assert line_before("other", [*wheels, (locked, third)]) == ""


async def test_a_name_that_a_dependency_has_lost_is_looked_for_in_the_lines_before(
    build: Build, dated: Callable[..., None]
) -> None:
    old, other = ("2025-01-01", "class Client: ..."), ("2025-06-01", "Other = 1")
    dated("client", v1_0=old, v1_4=old, v2_0=other, v2_1=other, v3_0=other)
    report = await build(USES, {"0.1.14": LIBRARY}, "verifiers", "client")
    told = [one.message.partition(";")[0] for one in report.tried]
    assert (told[1:], report.tried[2].chosen) == (["with client<3", "with client<2"], True)
    assert report.lock is not None
    assert {"client": "1.4"}.items() <= {wheel.name: wheel.version for wheel in report.lock.wheels}.items()
    resolved = next(check for check in report.checks if check.name == "resolve")
    assert "; with client<2: later releases lack what is asked of them" in resolved.summary


@pytest.mark.matrix
async def test_two_dependencies_that_have_lost_names_are_both_taken_from_the_line_before(
    build: Build, index: PackageIndex, tmp_path: Path
) -> None:
    for name in ("client", "tools"):
        for version, source in (("1.4", "class Client: ..."), ("2.0", "")):
            index.add(make_wheel(tmp_path, name, version, {f"{name}.py": source}))
    source = SOURCE.replace("return", "from client import Client; from tools import Client\n    return")
    report = await build(source, {"0.1.14": LIBRARY}, "verifiers", "client", "tools")
    assert [one.message for one in report.tried if one.chosen] == ["with client<2, tools<2"]
    assert report.lock is not None
    assert {wheel.name: wheel.version for wheel in report.lock.wheels}.items() >= {
        "client": "1.4",
        "tools": "1.4",
    }.items()
