"""Releases of verifiers are tried in the box, in order, until one loads: seen with small stand-ins for the library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from envhub.packaging import constraints, generation
from envhub.packaging.constraints import Candidate
from envhub.protocol.registry.builds import BuildReport, EnvironmentLock
from envhub.protocol.registry.needs import CheckSettings
from envhub.protocol.registry.packages import Generation
from envhub.protocol.runs import RunState

from tests.workers.builds.fake_hub import FakeHub
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.record import Record
from workers.builds.run import run_build
from workers.builds.search import Attempt, Search, still_open
from workers.builds.trying.trial import Trial
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.venvs import interpreters

pytestmark = pytest.mark.sandbox
LIBRARY = """
class Rubric:
    pass
class Environment:
    env_id, env_args, rubric, sampling_args = "", {}, Rubric(), None
    def __init__(self):
        self.rows = []
    def build_dataset(self):
        return self.rows
    async def rollout(self, *args):
        pass
SingleTurnEnv = Environment
"""
FEW = "verifiers>=0.1.10,<0.1.15.dev0"  # of all known releases, each of which is resolved
SOURCE = "import verifiers as vf\ndef load_environment():\n    return vf.SingleTurnEnv()\n"
Build = Callable[..., Awaitable[BuildReport]]


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    made = FakeHub()
    async with made.serve():
        yield made


@pytest.fixture
def build(hub: FakeHub, index: PackageIndex, data: Path, tmp_path: Path) -> Build:
    """Builds a package of one module with stand-ins for releases of verifiers: release -> source of the library."""

    async def run(source: str, library: dict[str, str], *requires: str, guess: str = "", **more: object) -> BuildReport:
        for version, text in library.items():
            index.add(make_wheel(tmp_path, "verifiers", version, {"verifiers/__init__.py": text}))
        wanted = requires or ("verifiers",)
        wheel = make_wheel(tmp_path, "early", files={"early.py": source}, requires=wanted)
        evidence = generation.classify({"early.py": source}, wanted, {"generation": guess} if guess else {})
        settings = WorkerEnvironment(hub_url=hub.url, data=data, package_index_url=index.url)  # type: ignore[arg-type]
        async with HubClient(hub.url, "token", patience_s=2.0) as client:
            finish = await execute(client, hub.claim(wheel, evidence, **more), run_build, settings, asyncio.Event())
        assert finish is not None
        assert finish.state is (RunState.SUCCEEDED if hub.reports[-1].failure is None else RunState.FAILED)
        return hub.reports[-1]

    return run


def with_urls(report: BuildReport) -> EnvironmentLock:
    """The lock as the hub hands it out again."""
    assert report.lock is not None
    wheels = (wheel.model_copy(update={"url": f"/blobs/{wheel.sha256}"}) for wheel in report.lock.wheels)
    return report.lock.model_copy(update={"wheels": tuple(wheels)})


def tried(report: BuildReport) -> list[tuple[str, str, bool]]:
    return [(one.verifiers, one.stage, one.chosen) for one in report.tried]


async def test_a_release_without_a_name_that_the_package_uses_is_left_for_the_next(build: Build) -> None:
    other = "class Environment: ...\n"
    report = await build(SOURCE, {"0.1.14": other, "0.1.12": LIBRARY}, FEW)
    assert [one for one in tried(report) if one[1] != "resolve"] == [("0.1.14", "load", False), ("0.1.12", "", True)]
    assert report.verifiers == "0.1.12"
    assert report.generation is Generation.LEGACY


@pytest.mark.matrix
async def test_a_name_that_no_release_has_is_a_forks(build: Build) -> None:
    other = "class Environment: ...\n"
    report = await build(SOURCE, dict.fromkeys(("0.1.14", "0.1.12", "0.1.10"), other), "verifiers<0.1.15")
    check = next(check for check in report.checks if check.name == "load")
    assert "written for a fork" in check.detail
    assert "no attribute 'SingleTurnEnv'" in check.summary


async def test_a_release_that_conflicts_with_the_package_is_left_for_the_next(
    build: Build, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "lib", "1.0"))
    index.add(make_wheel(tmp_path, "verifiers", "0.1.14", {"verifiers/__init__.py": LIBRARY}, requires=["lib>=2"]))
    report = await build(SOURCE, {"0.1.12": LIBRARY}, "verifiers>=0.1.12,<0.1.15.dev0", "lib<2")
    assert tried(report) == [("0.1.14", "resolve", False), ("0.1.12", "", True)]
    assert "lib" in report.tried[0].message


@pytest.mark.matrix
async def test_a_loader_that_the_newest_release_has_lost_rules_out_its_likes(build: Build) -> None:
    report = await build(SOURCE, {"0.4.0": "", "0.3.1": LIBRARY}, "verifiers>=0.3", guess="current")
    assert tried(report) == [("0.4.0", "load", False), ("0.3.1", "", True)]
    assert report.generation is Generation.LEGACY


OUTDATED = SOURCE.replace(
    "    return vf.SingleTurnEnv()",
    "    env = vf.SingleTurnEnv()\n    env.is_completed = lambda messages, state: True\n    return env",
)
PAIRS = LIBRARY.replace("def rollout(self, *args)", "def rollout(self, client, model, prompt)")


async def test_an_environment_of_before_0_1_8_leads_to_these_releases(build: Build) -> None:
    report = await build(OUTDATED, {"0.1.14": LIBRARY, "0.1.9": LIBRARY, "0.1.7": PAIRS, "0.1.6": PAIRS})
    assert tried(report) == [("0.1.14", "load", False), ("0.1.7", "", True)]
    assert report.tried[0].code == "outdated_environment"


async def test_an_environment_of_before_0_1_8_that_wants_a_later_release_is_told_so(build: Build) -> None:
    report = await build(OUTDATED, {"0.1.14": LIBRARY}, "verifiers>=0.1.10,<0.1.15")
    check = next(check for check in report.checks if check.name == "load")
    assert check.failed
    assert "written for verifiers before 0.1.8" in check.summary


ROLLS = """
    def build_dataset(self):
        return [{"prompt": [], "example_id": 0}]
    async def env_response(self, messages, state):
        return [], {}
    async def run_rollout(self, row, *args):
        return await self.rollout(row, *args)
    async def rollout(self, input, client, model, sampling_args=None):
        await self.env_response([], {})
"""


ANYTHING = (
    "def __getattr__(name):\n    return type(name, (), {'__init__': lambda self, *args, **more: None, 'send': None})\n"
)


async def test_a_response_with_its_state_leads_to_releases_of_before_0_1_8(
    build: Build, index: PackageIndex, tmp_path: Path
) -> None:
    later = LIBRARY.replace("\nSingleTurnEnv", ROLLS + "SingleTurnEnv")
    for client in ("openai", "httpx"):
        index.add(make_wheel(tmp_path, client, files={f"{client}.py": ANYTHING}))
    report = await build(SOURCE, {"0.1.14": later, "0.1.9": LIBRARY, "0.1.7": PAIRS}, "verifiers", "openai", "httpx")
    assert tried(report) == [("0.1.14", "scripted-rollout", False), ("0.1.7", "", True)]


async def test_a_conflict_with_one_of_the_hubs_pins_is_none_and_the_check_says_so(
    build: Build, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "lib", "1.0", requires=["mcp>=2"]))
    index.add(make_wheel(tmp_path, "mcp", "1.0"), make_wheel(tmp_path, "mcp", "2.0"))
    report = await build(SOURCE, {"0.1.14": LIBRARY}, "verifiers", "lib")
    assert tried(report) == [("0.1.14", "", True)]
    resolve = next(check for check in report.checks if check.name == "resolve")
    assert "without the hub's bounds mcp<2" in resolve.summary


async def test_a_conflict_that_is_not_about_verifiers_is_asked_once(build: Build) -> None:
    report = await build(SOURCE, {"0.1.14": LIBRARY, "0.1.12": LIBRARY}, "verifiers", "absent>=1")
    assert report.failure is not None
    assert report.failure.code == "dependency_conflict"
    assert [one.verifiers for one in report.tried] == ["0.1.14"]


async def test_releases_that_conflict_do_not_use_up_the_tries(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_BUILD_TRIES", "1")
    report = await build(SOURCE, {"0.1.3": PAIRS}, "verifiers<0.1.8")
    assert tried(report)[-1] == ("0.1.3", "", True)
    assert len(report.tried) == sum(one.stage == "resolve" for one in report.tried) + 1 > 3


async def test_a_need_ends_the_search(build: Build) -> None:
    source = "import os\n" + SOURCE.replace("    return", "    os.environ['SEARCH_KEY']\n    return")
    report = await build(source, {"0.1.14": LIBRARY, "0.1.12": LIBRARY})
    assert tried(report) == [("0.1.14", "load", True)]
    check = next(check for check in report.checks if check.name == "load")
    assert [(need.kind.value, need.name) for need in check.needs] == [("secret", "SEARCH_KEY")]


async def test_a_required_argument_is_a_need_that_the_settings_meet(build: Build) -> None:
    source = SOURCE.replace("load_environment()", "load_environment(path)")
    report = await build(source, {"0.1.14": LIBRARY})
    check = next(check for check in report.checks if check.name == "load")
    assert [(need.kind.value, need.name) for need in check.needs] == [("argument", "path")]
    settings = CheckSettings(env_args={"path": "x"})
    again = await build(source, {}, only_checks=True, previous=with_urls(report), settings=settings)
    assert all(check.passed for check in again.checks)
    assert again.lock is not None
    assert again.lock.verifiers == "0.1.14"


@pytest.mark.parametrize(
    ("lock_is_open", "taken"), [(True, "0.1.12"), pytest.param(False, "0.1.14", marks=pytest.mark.matrix)]
)
async def test_a_need_that_is_met_lets_the_search_go_on(build: Build, lock_is_open: bool, taken: str) -> None:
    source = "import os\n" + SOURCE.replace("    return", "    os.environ['SEARCH_KEY']\n    vf.old()\n    return")
    libraries = {"0.1.14": LIBRARY, "0.1.12": f"{LIBRARY}\ndef old(): ...\n"}
    report = await build(source, libraries, FEW)
    assert tried(report) == [("0.1.14", "load", True)]
    given = {"settings": CheckSettings(secrets=("SEARCH_KEY",)), "secrets": {"SEARCH_KEY": "x"}}
    again = await build(source, {}, only_checks=True, previous=with_urls(report), lock_is_open=lock_is_open, **given)
    assert again.lock is not None
    assert (again.lock.verifiers, all(check.passed for check in again.checks)) == (taken, lock_is_open)


@pytest.mark.matrix
async def test_a_need_that_is_met_and_no_release_that_does_better_is_told_of_each(build: Build) -> None:
    source = "import os\n" + SOURCE.replace("    return", "    os.environ['SEARCH_KEY']\n    vf.old()\n    return")
    report = await build(source, {"0.1.14": LIBRARY, "0.1.12": LIBRARY}, FEW)
    given = {"settings": CheckSettings(secrets=("SEARCH_KEY",)), "secrets": {"SEARCH_KEY": "x"}}
    again = await build(source, {}, only_checks=True, previous=with_urls(report), lock_is_open=True, **given)
    assert [one for one in tried(again) if one[1] != "resolve"] == [("0.1.14", "load", True), ("0.1.12", "load", False)]
    assert all("no attribute 'old'" in one.message for one in again.tried if one.stage == "load")


CONFIG = """
class ValidationError(ValueError):
    def errors(self, **kw):
        return [{"type": "missing", "loc": ("taskset", "path"), "msg": "Field required"}]
"""


async def test_a_config_that_one_release_cannot_make_is_made_by_another(build: Build) -> None:
    broken = LIBRARY.replace("        self.rows", "        raise ValidationError()\n        self.rows")
    report = await build(SOURCE, {"0.1.14": CONFIG + broken, "0.1.12": LIBRARY}, "verifiers>=0.1.12,<0.1.15")
    assert tried(report) == [("0.1.14", "load", False), ("0.1.12", "", True)]


@pytest.mark.matrix
async def test_a_config_that_no_release_can_make_needs_an_argument(build: Build) -> None:
    broken = CONFIG + LIBRARY.replace("        self.rows", "        raise ValidationError()\n        self.rows")
    report = await build(SOURCE, {"0.1.14": broken, "0.1.12": "raise ImportError"}, FEW)
    assert [one for one in tried(report) if one[2]] == [("0.1.14", "load", True)]
    check = next(check for check in report.checks if check.name == "load")
    assert [need.name for need in check.needs] == ["taskset.path"]


async def test_when_none_loads_the_version_is_ready_and_its_check_says_what_each_release_said(build: Build) -> None:
    library = {"0.1.14": "raise RuntimeError('first')", "0.1.12": "raise RuntimeError('second')"}
    report = await build(SOURCE, library, "verifiers>=0.1.12,<0.1.15.dev0")
    assert (report.failure, report.verifiers) == (None, "0.1.14")
    check = next(check for check in report.checks if check.name == "load")
    assert check.failed
    assert "first" in check.summary
    assert "second" in check.detail


async def test_when_no_known_release_goes_with_the_rest_another_that_the_package_allows_is_taken(
    build: Build, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "beside", "1", {"beside.py": ""}, requires=["verifiers<0.1.12,!=0.1.11"]))
    library = {"0.1.14": LIBRARY, "0.1.11.dev1": LIBRARY}
    report = await build(SOURCE, library, "verifiers>=0.1.11.dev0,<0.1.15.dev0", "beside")
    assert (report.failure, report.verifiers) == (None, "0.1.11.dev1")
    assert tried(report)[-1] == ("0.1.11.dev1", "", True)


async def test_when_nothing_can_be_resolved_the_first_conflict_is_told_with_the_others(build: Build) -> None:
    report = await build(SOURCE, {"0.1.9": LIBRARY}, "verifiers>=0.1.11,<0.1.13")
    assert report.failure is not None
    assert report.failure.code == "dependency_conflict"
    assert "verifiers 0.1.11" in report.failure.message


async def test_releases_without_what_the_package_imports_do_not_use_up_the_tries(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_BUILD_TRIES", "1")
    report = await build(SOURCE, {"0.1.14": "class Environment: ...\n", "0.1.12": LIBRARY}, FEW)
    assert [one for one in tried(report) if one[1] != "resolve"] == [("0.1.14", "load", False), ("0.1.12", "", True)]


async def test_no_more_releases_are_tried_than_the_worker_may(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_BUILD_TRIES", "1")
    report = await build(SOURCE, {"0.1.14": "", "0.1.12": LIBRARY})
    assert len(report.tried) == 1


@pytest.mark.matrix
async def test_a_range_without_a_release_that_loads_is_overridden_and_says_so(build: Build) -> None:
    report = await build(SOURCE, {"0.4.0": "", "0.1.14": LIBRARY}, "verifiers>=0.4")
    assert tried(report) == [("0.4.0", "load", False), ("0.1.14", "", True)]
    resolve = next(check for check in report.checks if check.name == "resolve")
    assert "verifiers>=0.4, is overridden" in resolve.summary


async def test_a_secret_reaches_the_box_and_no_check_tells_it(build: Build) -> None:
    source = SOURCE.replace("    return", "    import os; raise RuntimeError(os.environ['SEARCH_KEY'])\n    return")
    report = await build(source, {"0.1.14": LIBRARY}, "verifiers==0.1.14", secrets={"SEARCH_KEY": "hush-hush"})
    assert "RuntimeError: ***" in next(check.summary for check in report.checks if check.name == "load")
    assert "hush-hush" not in report.model_dump_json()


async def test_a_file_that_the_wheel_lacks_is_missing_with_every_release(build: Build) -> None:
    source = "from pathlib import Path\ndef load_environment():\n    Path(__file__).with_name('rows.csv').read_text()\n"
    report = await build(source, {"0.1.14": LIBRARY, "0.1.12": LIBRARY})
    assert tried(report) == [("0.1.14", "load", True)]
    assert any("the wheel has no rows.csv" in check.summary for check in report.checks)


async def test_what_is_left_to_upload_is_the_last_stage(build: Build) -> None:
    report = await build(SOURCE, {"0.1.14": LIBRARY})
    assert list(report.seconds)[-1] == report.checks[-1].name == "upload"


def attempt(release: str, stage: str, code: str) -> Attempt:
    lock = EnvironmentLock(python="3.11", platform="linux_x86_64", verifiers=release, wheels=())
    record: Any = Record(None)  # type: ignore[arg-type]
    return Attempt(Candidate(None, release), record, stage=stage, lock=lock, trial=Trial(code=code))


OLDER, NEWER = ["0.1.12", "0.1.9"], ["0.3.1", "0.2.1"]
SAME_AND_OTHER = (("v0", "0.1.14"), ("v0", "0.1.11"), ("v0-states", "0.1.9"))


@pytest.mark.parametrize(
    ("code", "following"),
    [
        ("rollout_mismatch", OLDER + NEWER),  # older releases come first
        ("import_error", NEWER + OLDER),
        ("file_not_packaged", []),
        ("no_repository", []),
        ("loader_not_exported", []),
        ("several_tasksets", []),
        ("environment_not_required", []),
        ("no_environment", []),
    ],
)
def test_what_a_try_showed_orders_and_rules_out_further_ones(code: str, following: list[str]) -> None:
    left = [Candidate(None, release) for release in NEWER + OLDER]
    assert [one.release for one in still_open(left, attempt("0.1.14", "load", code))] == following


@pytest.mark.parametrize(("stage", "left"), [("scripted-rollout", ["0.3.1"]), ("load", ["0.3.1", "0.1.11", "0.1.9"])])
def test_a_name_of_later_releases_is_looked_for_in_none_before_one_that_lacks_it(stage: str, left: list[str]) -> None:
    lacking = attempt("0.1.12", "load", "no_verifiers_name")
    search = Search(None, None, None, None, [attempt("0.4.0", stage, "rollout_mismatch"), lacking])  # type: ignore[arg-type]
    candidates = [Candidate(None, release) for release in ("0.3.1", "0.1.11", "0.1.9")]
    assert [one.release for one in search.not_before(lacking, candidates)] == left


def test_a_part_of_the_library_that_one_release_lacks_is_looked_for_in_none_before_it_of_the_same_api() -> None:
    sets = constraints.load()
    lacking = replace(attempt("0.1.12", "load", "no_verifiers_name"), candidate=Candidate(sets["v0"], "0.1.12"))
    newer, older, other = (Candidate(sets[name], one) for name, one in SAME_AND_OTHER)
    for name, still in (("verifiers.protocols", [newer, other]), ("verifiers.utils.tasks", [newer, older, other])):
        lacking.trial = Trial(code="no_verifiers_name", message=f"verifiers 0.1.12: No module named '{name}'")
        assert still_open([newer, older, other], lacking) == still


def test_what_imports_v1_is_tried_with_no_release_before_it() -> None:
    lacking = attempt("0.1.12", "load", "no_verifiers_name")
    lacking.trial = Trial(code="no_verifiers_name", message="verifiers 0.1.12: No module named 'verifiers.v1'")
    search = Search(None, None, None, None, [lacking])  # type: ignore[arg-type]
    candidates = [Candidate(None, release) for release in ("0.3.1", "0.1.11", "0.1.9")]
    assert [one.release for one in search.not_before(lacking, candidates)] == ["0.3.1"]


@pytest.fixture
def newer() -> interpreters.Interpreter:
    """A Python whose standard library has lost `imp`."""
    found = [one for one in interpreters.present() if one.version >= (3, 12)]
    if not found:
        pytest.skip("this machine has no Python of 3.12 or later")
    return found[0]


async def test_what_a_newer_python_has_lost_is_looked_for_in_an_older_one(
    build: Build, newer: interpreters.Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = interpreters.present()[0]
    monkeypatch.setattr(interpreters, "present", lambda: (newer, own))
    report = await build(f"import imp\n{SOURCE}", {"0.1.14": LIBRARY})
    assert report.lock is not None
    assert [(one.python, one.code, one.chosen) for one in report.tried] == [
        (newer.short, "older_python_needed", False),
        (own.short, "", True),
    ]
    assert (report.lock.python, [check.name for check in report.checks if check.failed]) == (own.short, [])
    assert report.tried[1].message == f"with Python {own.short}"


async def test_no_release_of_verifiers_makes_up_for_what_python_has_lost(
    build: Build, newer: interpreters.Interpreter
) -> None:
    library = {"0.1.14": LIBRARY, "0.1.12": LIBRARY}
    report = await build(f"import imp\n{SOURCE}", library, requires_python=f"=={newer.short}.*")
    load = next(check for check in report.checks if check.name == "load")
    assert (len(report.tried), "imp is imported" in load.summary) == (1, True)
    assert "Let requires-python end before 3.12" in load.detail
