from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from envhub.packaging import generation
from envhub.protocol.registry.builds import BuildReport
from envhub.protocol.registry.packages import Check, GenerationEvidence
from envhub.protocol.runs import FailureKind, FinishRequest, RunState

from tests.workers.builds.fake_hub import FakeHub
from tests.workers.builds.sdists import make_sdist
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.run import run_build
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment

pytestmark = pytest.mark.sandbox
PLAIN = GenerationEvidence(generation=None, specifier="", constraint_set="")
Build = Callable[..., Awaitable[FinishRequest]]


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    made = FakeHub()
    async with made.serve():
        yield made


@pytest.fixture
def build(hub: FakeHub, index: PackageIndex, data: Path) -> Build:
    """Builds a wheel as a worker would whose operator has `index`."""

    async def run(wheel: Path, evidence: GenerationEvidence = PLAIN, **more: object) -> FinishRequest:
        settings = WorkerEnvironment(hub_url=hub.url, data=data, package_index_url=index.url)  # type: ignore[arg-type]
        async with HubClient(hub.url, "token", patience_s=2.0) as client:
            claim = hub.claim(wheel, evidence, **more)
            finish = await execute(client, claim, run_build, settings, asyncio.Event())
        assert finish is not None
        return finish

    return run


def code_of(finish: FinishRequest, hub: FakeHub) -> str:
    """The failure's code, the same in the run's end and in the report, and never an empty hint."""
    assert finish.state is RunState.FAILED
    assert finish.failure is not None
    assert hub.reports[-1].failure == finish.failure
    assert finish.failure.kind is FailureKind.ENVIRONMENT
    return finish.failure.code


def failed_load(finish: FinishRequest, hub: FakeHub) -> Check:
    """The failed check of a version that is ready all the same."""
    assert (finish.state, hub.reports[-1].failure) == (RunState.SUCCEEDED, None)
    assert hub.reports[-1].lock is not None
    check = next(check for check in hub.reports[-1].checks if check.name == "load")
    assert check.failed
    return check


async def test_an_exception_at_import_is_a_failed_check_with_its_traceback(
    build: Build, hub: FakeHub, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, "broken", files={"broken.py": "def inner():\n    raise KeyError('deep')\ninner()\n"})
    check = failed_load(await build(wheel), hub)
    assert "line 2, in inner" in check.detail
    assert [(one.stage, one.code, one.chosen) for one in hub.reports[-1].tried] == [("load", "import_error", True)]


@pytest.mark.parametrize(("name", "names"), [("JUDGE_KEY", ("JUDGE_KEY",)), ("x; curl evil", ())])
async def test_a_package_that_needs_a_secret_to_load_is_not_tried_and_names_it(
    build: Build, hub: FakeHub, tmp_path: Path, name: str, names: tuple[str, ...]
) -> None:
    finish = await build(make_wheel(tmp_path, "keyed", files={"keyed.py": f"import os\nos.environ[{name!r}]\n"}))
    assert finish.state is RunState.SUCCEEDED
    check = next(check for check in hub.reports[-1].checks if check.name == "load")
    assert (check.passed, tuple(need.name for need in check.needs)) == (
        False,
        names,
    )  # a command with the name is offered for copying
    assert name in check.summary


async def test_a_package_without_load_environment_is_told_so(build: Build, hub: FakeHub, tmp_path: Path) -> None:
    finish = await build(make_wheel(tmp_path, "empty", files={"empty.py": "x = 1\n"}))
    assert "load_environment" in failed_load(finish, hub).summary


async def test_conflicting_requirements_are_explained(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "lib", "1.0"))
    finish = await build(make_wheel(tmp_path, "greedy", requires=["lib>=2"]))
    assert code_of(finish, hub) == "dependency_conflict"
    assert "lib>=2" in (finish.failure.message if finish.failure else "")


async def test_a_dependency_with_the_packages_own_name_is_named(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    for name in ("another", "echo"):
        index.add(make_wheel(tmp_path, name, "1.0"))
    finish = await build(make_wheel(tmp_path / "own", "echo", "2.0", requires=["another", "echo"]))
    assert code_of(finish, hub) == "dependency_conflict"
    assert finish.failure is not None
    assert finish.failure.message.endswith("a project of its own name, echo")


async def test_a_direct_reference_is_refused_and_not_fetched(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    finish = await build(make_wheel(tmp_path, "sly", requires=[f"evil @ {index.url}evil/"]))
    assert code_of(finish, hub) == "direct_reference"
    assert index.asked == []


async def test_a_dangerous_wheel_is_refused(build: Build, hub: FakeHub, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "evil", files={"{data}/data/bin/python": "#!/bin/sh\n"})
    assert code_of(await build(wheel), hub) == "dangerous_wheel"


async def test_a_dangerous_dependency_is_refused(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "evil", files={"{data}/scripts/python3": "#!/bin/sh\n"}))
    assert code_of(await build(make_wheel(tmp_path, "victim", requires=["evil"])), hub) == "dangerous_wheel"


async def test_a_python_that_nobody_has_is_named(build: Build, hub: FakeHub, tmp_path: Path) -> None:
    finish = await build(make_wheel(tmp_path, "future"), requires_python=">=3.99")
    assert code_of(finish, hub) == "no_python"


async def test_a_source_that_does_not_build_names_the_package(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_sdist(tmp_path, "oldlib", before="raise SystemExit('no')"))
    finish = await build(make_wheel(tmp_path, "needy", requires=["oldlib"]))
    assert code_of(finish, hub) == "source_does_not_build"
    assert "oldlib-1.0.tar.gz" in (finish.failure.message if finish.failure else "")


async def test_start_up_code_of_a_package_runs_in_the_box_only(build: Build, hub: FakeHub, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as witness:
        os.chmod(witness, 0o777)
        line = f"import sys; sys.stderr.write('pth ran' + chr(10)); open('{witness}/ran', 'w')\n"
        await build(make_wheel(tmp_path, "sly", files={"sly.py": "", "sly.pth": line}))
        assert os.listdir(witness) == []
    assert "pth ran" in hub.log
    assert [check.summary for check in hub.reports[-1].checks if check.name == "start-up files"] == [
        "sly.pth of the wheel runs at every start, in the box"
    ]


async def test_a_package_that_never_returns_is_ended(
    build: Build, hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_LOAD_LIMIT_S", "3")
    finish = await build(make_wheel(tmp_path, "sleepy", files={"sleepy.py": "import time; time.sleep(3600)\n"}))
    assert "longer than 3 s (WORKER_LOAD_LIMIT_S)" in failed_load(finish, hub).summary


async def test_a_package_that_kills_its_process_is_named(build: Build, hub: FakeHub, tmp_path: Path) -> None:
    source = "import os; print('last words', flush=True); os._exit(9)\n"
    finish = await build(make_wheel(tmp_path, "suicidal", files={"suicidal.py": source}))
    assert "ended its runner" in failed_load(finish, hub).summary
    assert "last words" in hub.log


async def test_one_that_was_killed_from_outside_is_given_back_to_the_queue(
    build: Build, hub: FakeHub, tmp_path: Path
) -> None:
    source = "import os; os.kill(os.getpid(), 9)\n"  # to the worker it looks like an operator's kill
    finish = await build(make_wheel(tmp_path, "killed", files={"killed.py": source}))
    assert finish.failure is not None
    assert (finish.failure.kind, finish.failure.code) == (FailureKind.INFRASTRUCTURE, "box_killed")
    assert hub.reports == []


async def test_an_index_that_is_away_gives_the_run_back(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    index.password = "changed"
    finish = await build(make_wheel(tmp_path, "needy", requires=["lib"]))
    assert finish.failure is not None
    assert (finish.failure.kind, finish.failure.code) == (FailureKind.INFRASTRUCTURE, "index_unreachable")
    assert hub.reports == []


async def test_a_version_whose_dependency_left_the_index_keeps_its_lock(
    build: Build, hub: FakeHub, index: PackageIndex, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "lib", "1.0", {"lib.py": "kept = 'kept by the hub'\n"}))
    wheel = make_wheel(tmp_path, "mine", files={"mine.py": "import lib; print(lib.kept)\n"}, requires=["lib"])
    await build(wheel)
    first = hub.reports[-1].lock
    assert first is not None
    index.files.clear()
    kept = tuple(one.model_copy(update={"url": f"/blobs/{one.sha256}"}) for one in first.wheels)
    shutil.rmtree(data / "uv")
    shutil.rmtree(data / "blobs")
    hub.log = ""
    await build(wheel, previous=first.model_copy(update={"wheels": kept}))
    assert hub.reports[-1].lock == first
    assert "kept by the hub" in hub.log


async def test_a_new_version_can_pin_a_release_that_left_the_index(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "lib", "2.0"))
    hub.kept_index.add(make_wheel(tmp_path, "lib", "1.0", {"lib.py": "kept = 'kept by the hub'\n"}))
    source = {"mine.py": "import lib; print(lib.kept)\n"}
    await build(make_wheel(tmp_path, "mine", files=source, requires=["lib==1.0"]))
    lock = hub.reports[-1].lock
    assert lock is not None
    assert [wheel.version for wheel in lock.wheels if wheel.name == "lib"] == ["1.0"]
    assert "kept by the hub" in hub.log


async def build_from_the_real_index(hub: FakeHub, data: Path, folder: Path, name: str, rows: str) -> BuildReport:
    """Builds a package on the operator's real index, which this machine's configuration names; it must succeed."""
    source = f"""
import verifiers as vf
from datasets import Dataset

def load_environment():
    rows = Dataset.from_dict({rows})
    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[lambda completion, answer: 1.0]))
"""
    requires = ["verifiers>=0.1.8"]
    wheel = make_wheel(folder, name, files={f"{name}.py": source}, requires=requires)
    settings = WorkerEnvironment(hub_url=hub.url, data=data)  # type: ignore[arg-type]
    async with HubClient(hub.url, "token", patience_s=2.0) as client:
        claim = hub.claim(wheel, generation.classify({f"{name}.py": source}, requires, {}))
        finish = await execute(client, claim, run_build, settings, asyncio.Event())
    assert finish is not None
    assert finish.state is RunState.SUCCEEDED, hub.log
    return hub.reports[-1]


@pytest.mark.verifiers
@pytest.mark.matrix  # the end-to-end tests build real packages on every run
async def test_a_real_package_becomes_ready(hub: FakeHub, data: Path, tmp_path: Path) -> None:
    rows = '{"question": ["say hi"], "answer": ["hi"]}'
    report = await build_from_the_real_index(hub, data, tmp_path, "greeting", rows)
    assert (report.verifiers, all(check.passed for check in report.checks)) == ("0.1.14", True)
    assert [one.built_from_source for one in (report.lock.wheels if report.lock else ()) if one.name == "wget"] == [
        True
    ]
    assert report.scripted_rollout is not None
    assert report.scripted_rollout["reward"] == 1.0


@pytest.mark.verifiers
@pytest.mark.matrix  # the end-to-end tests build real packages on every run
async def test_a_package_without_examples_of_its_own_passes_and_says_how_to_choose_them(
    hub: FakeHub, data: Path, tmp_path: Path
) -> None:
    rows = '{"question": [], "answer": []}'
    report = await build_from_the_real_index(hub, data, tmp_path, "chosen", rows)
    checks = {check.name: check for check in report.checks}
    assert all(check.passed for check in report.checks)
    assert "--env-args" in checks["scripted-rollout"].summary


async def test_a_missing_readme_is_a_failed_check_only(build: Build, hub: FakeHub, tmp_path: Path) -> None:
    await build(make_wheel(tmp_path, "terse", files={"terse.py": ""}), has_readme=False)
    assert [check.passed for check in hub.reports[-1].checks if check.name == "readme"] == [False]


async def test_an_owners_own_dependency_comes_from_his_index(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "public", "shared", "99.0"))
    hub.owner_index.add(make_wheel(tmp_path / "owner", "shared", "1.0"))
    await build(make_wheel(tmp_path, "mine", files={"mine.py": ""}, requires=["shared"]))
    lock = hub.reports[-1].lock
    assert lock is not None
    assert [wheel.version for wheel in lock.wheels if wheel.name == "shared"] == ["1.0"]
    assert all(wheel.owned for wheel in lock.wheels if wheel.name in {"shared", "mine"})


async def test_a_tool_started_by_uvx_is_locked_beside_the_package(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    entry = {"echo_server-1.0.dist-info/entry_points.txt": "[console_scripts]\necho-server = echo_server:main\n"}
    index.add(make_wheel(tmp_path, "echo-server", files={"echo_server.py": "def main(): print('echo!')\n", **entry}))
    source = "import subprocess; print(subprocess.run(['uvx', 'echo-server'], capture_output=True, text=True).stdout)\n"
    wheel = make_wheel(tmp_path, "toolful", files={"toolful.py": source})
    await build(wheel, tool_programs=("echo-server",))
    lock = hub.reports[-1].lock
    assert lock is not None
    assert {(one.name, one.tool) for one in lock.wheels} == {("toolful", ""), ("echo-server", "echo-server")}
    assert "echo!" in hub.log


async def test_what_a_script_declares_is_locked_beside_the_package(
    build: Build, hub: FakeHub, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "dep", files={"dep.py": "v = 'measured'\n"}))
    program = '# /// script\n# dependencies = ["dep"]\n# ///\nimport dep\nprint(dep.v)\n'
    source = (
        "import subprocess; from pathlib import Path; path = str(Path(__file__).with_name('measure.py'))\n"
        "print(subprocess.run(['uv', 'run', '--script', path], capture_output=True, text=True))\n"
    )
    await build(make_wheel(tmp_path, "scripted", files={"scripted.py": source, "measure.py": program}))
    lock = hub.reports[-1].lock
    assert lock is not None
    assert {(one.name, one.tool) for one in lock.wheels} == {("scripted", ""), ("dep", "script: dep")}
    assert "stdout='measured\\n'" in hub.log


async def test_what_a_script_declares_in_vain_is_a_failed_check_only(
    build: Build, hub: FakeHub, tmp_path: Path
) -> None:
    program = '# /// script\n# dependencies = ["unheard-of"]\n# ///\n'
    await build(make_wheel(tmp_path, "scripted", files={"scripted.py": "", "measure.py": program}))
    report = hub.reports[-1]
    check = next(check for check in report.checks if check.name == "scripts")
    assert not check.passed
    assert check.summary.startswith("measure.py: ")
    assert "unheard-of" in check.summary
    assert report.lock is not None
    assert report.failure is None


async def test_scripts_of_the_owners_dependencies_count_too(build: Build, hub: FakeHub, tmp_path: Path) -> None:
    program = "# /// script\n# dependencies = []\n# ///\n"
    hub.owner_index.add(make_wheel(tmp_path, "shared", files={"shared/program.py": program}))
    await build(make_wheel(tmp_path, "user", files={"user.py": ""}, requires=["shared"]))
    lock = hub.reports[-1].lock
    assert lock is not None
    assert [script.path for script in lock.scripts] == ["shared/program.py"]
