"""Direct references: fetched from a real git server on loopback, pinned, made into wheels in a box, seen by real uv."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from envhub.protocol.registry.builds import BuildReport, EnvironmentLock
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.registry.packages import GenerationEvidence

from tests.workers.builds.fake_hub import FakeHub
from tests.workers.builds.sdists import BACKEND, make_sdist
from tests.workers.git_server import GitServer, git
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.run import run_build
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment

pytestmark = pytest.mark.sandbox
PLAIN = GenerationEvidence(generation=None, specifier="", constraint_set="")
ENV = "class E:\n    env_id = ''\n    env_args = None\n    rubric = None\ndef load_environment():\n    return E()\n"
Build = Callable[..., Awaitable[BuildReport]]


def project(name: str, version: str = "1.0", *, requires: str = "", text: str = "answer = 42\n") -> dict[str, str]:
    """The files of a project with a build backend of its own."""
    line = f"Requires-Dist: {requires}\\n" if requires else ""
    pyproject = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    backend = BACKEND.format(name=name, version=version, before="    pass", requires=line)
    return {"pyproject.toml": pyproject, "backend.py": backend, "module.py": text}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GitServer]:
    async with GitServer(tmp_path / "git").serve() as made:
        yield made


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    made = FakeHub()
    async with made.serve():
        yield made


@pytest.fixture
def build(hub: FakeHub, index: PackageIndex, data: Path, tmp_path: Path, server: GitServer) -> Build:
    """Builds a package with these requirements where the server's host is let through; gives the report."""

    async def run(*requires: str, pyproject: str = "", text: str = ENV, **more: object) -> BuildReport:
        wheel = make_wheel(tmp_path, "asks", files={"asks.py": text}, requires=list(requires))
        settings = WorkerEnvironment(hub_url=hub.url, data=data, package_index_url=index.url)  # type: ignore[arg-type]
        async with HubClient(hub.url, "token", patience_s=2.0) as client:
            if pyproject:
                more["sdist"] = hub.keep(make_sdist(tmp_path, "asks", files={"pyproject.toml": pyproject}))
            claim = hub.claim(wheel, PLAIN, **{"git_hosts": (server.url,), **more})
            await execute(client, claim, run_build, settings, asyncio.Event())
        return hub.reports[-1]

    return run


def locked(report: BuildReport, name: str) -> tuple[str, str]:
    """Version and source of a locked wheel."""
    assert report.lock is not None, report.failure
    return next((wheel.version, wheel.source) for wheel in report.lock.wheels if wheel.name == name)


def code_of(report: BuildReport) -> str:
    assert report.failure is not None
    return report.failure.code


@pytest.mark.matrix
async def test_a_moving_ref_is_pinned_and_stays_where_it_was(build: Build, server: GitServer) -> None:
    first = server.commit("lib", project("lib"))
    line = f"lib @ git+{server.url}/lib@main"
    report = await build(line)
    assert locked(report, "lib") == ("1.0", f"git+{server.url}/lib@{first}")
    server.commit("lib", project("lib", "2.0"))
    again = await build(line, previous=EnvironmentLock.model_validate(report.lock))
    assert locked(again, "lib") == ("1.0", f"git+{server.url}/lib@{first}")


async def test_a_commit_that_the_hub_has_a_wheel_of_is_not_fetched_again(build: Build, server: GitServer) -> None:
    commit = server.commit("lib", project("lib"))
    line = f"lib @ git+{server.url}/lib@{commit}"
    await build(line)
    server.asked.clear()
    assert locked(await build(line), "lib")[0] == "1.0"
    assert server.asked == []


@pytest.mark.matrix
async def test_an_abbreviated_commit_and_a_subdirectory_are_understood(build: Build, server: GitServer) -> None:
    files = {f"inner/{path}": text for path, text in project("lib", "3.0").items()}
    commit = server.commit("mono", {**files, "README": "outer"})
    version, source = locked(await build(f"lib @ git+{server.url}/mono@{commit[:7]}#subdirectory=inner"), "lib")
    assert (version, source) == ("3.0", f"git+{server.url}/mono@{commit}#subdirectory=inner")


async def test_an_abbreviated_commit_that_the_repository_has_not_is_named(build: Build, server: GitServer) -> None:
    server.commit("lib", project("lib"))
    report = await build(f"lib @ git+{server.url}/lib@0000000")
    assert report.failure is not None
    assert "no commit of its branches and tags begins with 0000000" in report.failure.message


async def test_a_reference_of_a_reference_is_followed(
    build: Build, server: GitServer, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "index", "deep", "9.0"))
    server.commit("deep", project("deep"))
    server.commit("lib", project("lib", requires=f"deep @ git+{server.url}/deep"))
    report = await build(f"lib @ git+{server.url}/lib")
    assert locked(report, "deep")[0] == "1.0"


async def test_a_reference_may_require_something_in_an_old_spelling_that_uv_accepts(
    build: Build, server: GitServer, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "index", "old", "1.17"))
    server.commit("lib", project("lib", requires="old (>=1.16.*)"))
    report = await build(f"lib @ git+{server.url}/lib")
    assert locked(report, "old")[0] == "1.17"


@pytest.mark.matrix
async def test_a_reference_that_requires_what_nobody_can_read_is_named(build: Build, server: GitServer) -> None:
    server.commit("lib", project("lib", requires="old (no version)"))
    report = await build(f"lib @ git+{server.url}/lib")
    assert report.failure is not None
    assert (report.failure.code, "lib" in report.failure.message) == ("dependency_conflict", True)


@pytest.mark.matrix
async def test_the_references_of_an_extra_that_is_asked_for_are_followed(build: Build, server: GitServer) -> None:
    server.commit("deep", project("deep"))
    server.commit("lib", project("lib", requires=f"deep @ git+{server.url}/deep ; extra == 'rl'"))
    assert locked(await build(f"lib[rl] @ git+{server.url}/lib"), "deep")[0] == "1.0"


async def test_a_reference_for_another_python_is_not_fetched(build: Build, server: GitServer) -> None:
    report = await build(f"lib @ git+{server.url}/lib ; python_version < '3'")
    assert (report.failure, server.asked) == (None, [])


@pytest.mark.parametrize("ref", ["v1.0", "refs/pull/7/head"])
async def test_a_tag_and_a_pull_request_are_understood(build: Build, server: GitServer, ref: str) -> None:
    commit = server.commit("lib", project("lib"), tag="v1.0")
    git(server.root / "lib", "update-ref", "refs/pull/7/head", commit)
    assert locked(await build(f"lib @ git+{server.url}/lib@{ref}"), "lib")[1].endswith(f"@{commit}")


async def test_uv_sources_stand_in_for_the_index(build: Build, server: GitServer) -> None:
    commit = server.commit("lib", project("lib"))
    sources = f'[tool.uv.sources]\nlib = {{ git = "{server.url}/lib" }}'
    assert locked(await build("lib>=0.1", pyproject=sources), "lib") == ("1.0", f"git+{server.url}/lib@{commit}")


async def test_without_their_host_the_index_is_enough(
    build: Build, server: GitServer, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "index", "lib", "9.0"))
    sources = f'[tool.uv.sources]\nlib = {{ git = "{server.url}/lib" }}'
    report = await build("lib", pyproject=sources, git_hosts=())
    assert locked(report, "lib") == ("9.0", "")
    assert "[tool.uv.sources]" in next(check.summary for check in report.checks if check.name == "resolve")


async def test_uv_sources_whose_host_is_closed_are_a_need_where_the_index_has_nothing(
    build: Build, server: GitServer
) -> None:
    sources = f'[tool.uv.sources]\nlib = {{ git = "{server.url}/lib" }}'
    report = await build("lib", pyproject=sources, git_hosts=())
    assert report.failure is None
    assert [need.name for check in report.checks for need in check.needs] == [server.url]


async def test_what_does_not_load_without_uv_sources_needs_their_host(
    build: Build, server: GitServer, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "index", "lib", "9.0"))
    sources = f'[tool.uv.sources]\nlib = {{ git = "{server.url}/lib" }}'
    report = await build("lib", pyproject=sources, git_hosts=(), text="import no_such_module\n" + ENV)
    load = next(check for check in report.checks if check.name == "load")
    assert [need.name for need in load.needs] == [server.url]


async def test_a_version_that_comes_from_tags_is_told_to_the_backend(
    build: Build, server: GitServer, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "index", "setuptools_scm", "9.0"))
    files = project("lib")
    files["pyproject.toml"] = files["pyproject.toml"].replace("requires = []", 'requires = ["setuptools_scm"]')
    files["backend.py"] = files["backend.py"].replace("'1.0'", "os.environ['SETUPTOOLS_SCM_PRETEND_VERSION']")
    server.commit("lib", files, tag="v1.4.0")
    commit = server.commit("lib", {"more": "x"})
    report = await build(f"lib @ git+{server.url}/lib@{commit}")
    assert locked(report, "lib")[0] == f"1.4.1.dev1+g{commit[:9]}"


async def test_a_host_that_is_not_listed_is_a_need_and_nothing_is_fetched(build: Build, server: GitServer) -> None:
    server.commit("lib", project("lib"))
    report = await build(f"lib @ git+{server.url}/lib", git_hosts=("github.com",))
    check = next(check for check in report.checks if check.name == "resolve")
    assert [(need.kind, need.name) for need in check.needs] == [(NeedKind.GIT_HOST, server.url)]
    assert (report.failure, server.asked) == (None, [])


async def test_a_host_that_is_away_is_a_need(build: Build) -> None:
    report = await build("lib @ git+http://127.0.0.1:9/lib", git_hosts=("http://127.0.0.1:9",))
    check = next(check for check in report.checks if check.name == "resolve")
    assert [need.name for need in check.needs] == ["http://127.0.0.1:9"]


async def test_a_redirect_to_another_host_is_not_followed(build: Build, server: GitServer, tmp_path: Path) -> None:
    async with GitServer(tmp_path / "other").serve() as other:
        other.commit("lib", project("lib"))
        server.redirect = other.url
        assert code_of(await build(f"lib @ git+{server.url}/lib")) == "direct_reference"
        assert other.asked == []


@pytest.mark.parametrize("ref", ["no-such-branch", "0" * 40])
async def test_a_ref_that_is_not_there_is_named(build: Build, server: GitServer, ref: str) -> None:
    server.commit("lib", project("lib"))
    report = await build(f"lib @ git+{server.url}/lib@{ref}")
    assert code_of(report) == "direct_reference"
    assert ref in (report.failure.message if report.failure else "")


async def test_a_hostile_repository_reaches_nothing_of_the_host(
    build: Build, server: GitServer, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("top secret")
    server.commit("lib", {**project("lib"), ".gitattributes": "* filter=evil export-subst\n"})
    folder = server.root / "lib"
    (folder / "leak").symlink_to(secret)
    (folder / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = file://{tmp_path}\n')
    hook = folder / "hooks/post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
    server.commit("lib", {"module.py": "answer = 1\n"})
    git(folder, "config", "filter.evil.smudge", f"touch {tmp_path}/pwned")
    backend = project("lib")["backend.py"].replace("    pass", "    assert not os.path.exists('leak')")
    server.commit("lib", {"backend.py": backend})
    assert locked(await build(f"lib @ git+{server.url}/lib"), "lib")[0] == "1.0"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.matrix
async def test_a_mirror_stands_in_for_an_address(build: Build, server: GitServer) -> None:
    commit = server.commit("lib", project("lib"))
    mirrors = {"https://git.example.org/team/": f"{server.url}/"}
    line = "lib @ git+https://git.example.org/team/lib"
    report = await build(line, git_hosts=("git.example.org",), git_mirrors=mirrors)
    assert locked(report, "lib")[1] == f"git+https://git.example.org/team/lib@{commit}"


async def test_a_wheel_by_its_address_is_checked_against_its_hash(
    build: Build, index: PackageIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "index", "lib", "1.5"))
    address = f"{index.url.removesuffix('simple/')}files/lib/lib-1.5-py3-none-any.whl"
    host = address.partition("/files")[0]
    assert locked(await build(f"lib @ {address}", git_hosts=(host,)), "lib")[0] == "1.5"
    report = await build(f"lib @ {address}#sha256={'0' * 64}", git_hosts=(host,))
    assert code_of(report) == "direct_reference"
