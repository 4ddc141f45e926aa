"""Packages that attack, by the whole path: each is refused or contained and named, and the worker lives."""

from __future__ import annotations

import gzip
import io
import socket
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from envhub.client.blobs import LocalBlob
from envhub.errors import ApiError
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.registry.packages import PushFile, PushRequest, VersionState, VersionView
from envhub.protocol.runs import FailureKind, RunState

from infra.demo.processes import Role
from tests.e2e import hostile_packages as sources
from tests.e2e.stack import USER, Stack, answer_text
from tests.factories.packages import make_pair, write_package
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
SNOOPED = ("host_file", "shadow", "variables", "others", "hub", "internet", "writes")
WHEEL_TARGETS = "[tool.hatch.build.targets.wheel.force-include]\n"


@pytest.fixture(scope="module")
def model(stack: Stack) -> str:
    """A model that answers at once."""
    return stack.register(PolicyEndpoint(answer=answer_text("hello")))


@pytest.fixture(autouse=True)
def _worker_lives(stack: Stack) -> Iterator[None]:
    """Whatever happens, it is the same worker afterwards, and no box is left."""
    before = stack.pids(Role.WORKER)
    yield
    assert stack.pids(Role.WORKER) == before


def pushed(stack: Stack, folder: Path, name: str, source: str, **options: Any) -> VersionView:
    """Write, push, build."""
    return stack.wait_ready(stack.push(write_package(folder, name, source=source, **options)))


def evaluated(stack: Stack, name: str, model: str, **changes: Any) -> EvaluationView:
    """Evaluate to the end."""
    config = {"environment": f"{USER}/{name}", "model": model, "num_examples": 4, "rollouts_per_example": 1}
    return stack.finished(stack.evaluate(EvaluationConfig.model_validate(config | changes)).id)


def test_an_environment_sees_nothing_of_its_host(stack: Stack, model: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the host's")
    tmp_path.chmod(0o777)
    secret.chmod(0o666)
    version = pushed(stack, tmp_path, "e2e-snoop", sources.SNOOP)
    assert version.state is VersionState.READY, version.failure
    arguments = {"secret_file": str(secret), "hub_port": stack.port, "mark": str(stack.data)}
    view = evaluated(stack, "e2e-snoop", model, env_args=arguments)
    assert view.state is RunState.SUCCEEDED
    rows = stack.rollouts(view.id)
    assert len(rows) == 4
    for row in rows:
        assert row.outcome is Outcome.OK
        assert {name: row.metrics.get(name) for name in SNOOPED} == dict.fromkeys(SNOOPED, 0.0)


def test_a_start_up_file_of_a_dependency_runs_in_boxes_only(stack: Stack, model: str, tmp_path: Path) -> None:
    marker = Path("/var/tmp") / f"escaped-{stack.port}"
    extra = WHEEL_TARGETS + '"evil.pth" = "evil.pth"\n"e2e_pth.py" = "e2e_pth.py"\n'
    files = {"evil.pth": sources.PTH.format(path=str(marker))}
    evil = pushed(stack, tmp_path, "e2e-pth", sources.SMALL, pyproject_extra=extra, files=files)
    assert any(check.name == "start-up files" and "evil.pth" in check.summary for check in evil.checks)
    user = pushed(stack, tmp_path, "e2e-uses-pth", sources.SMALL, dependencies=("verifiers>=0.1.8", "e2e-pth"))
    assert user.state is VersionState.READY, user.failure
    assert evaluated(stack, "e2e-uses-pth", model).state is RunState.SUCCEEDED
    assert not marker.exists()


def test_a_direct_reference_to_a_host_that_the_operator_does_not_name_is_never_fetched(
    stack: Stack, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1.0)
        reference = f"evil @ http://127.0.0.1:{server.getsockname()[1]}/evil-1.0-py3-none-any.whl"
        extra = "[tool.hatch.metadata]\nallow-direct-references = true\n"
        package = write_package(tmp_path, "e2e-direct", dependencies=("verifiers", reference), pyproject_extra=extra)
        version = stack.wait_ready(stack.push(package))
        assert (version.state, [need.kind for need in version.needs]) == (VersionState.READY, [NeedKind.GIT_HOST])
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.matrix  # a minute or more; the doctor lets one off in every run of the suite
def test_a_fork_bomb_is_stopped_and_named(stack: Stack, tmp_path: Path) -> None:
    version = pushed(stack, tmp_path, "e2e-bomb", sources.FORK_BOMB)
    (load,) = (check for check in version.checks if check.name == "load")
    assert load.failed
    assert "no more processes" in load.summary + load.detail


@pytest.mark.parametrize("megabytes", [200, pytest.param(10_000, marks=pytest.mark.matrix)])
def test_endless_output_fills_nothing(stack: Stack, model: str, tmp_path: Path, megabytes: int) -> None:
    version = pushed(stack, tmp_path, f"e2e-loud-{megabytes}", sources.LOUD)
    assert version.state is VersionState.READY, version.failure
    view = evaluated(stack, f"e2e-loud-{megabytes}", model, env_args={"megabytes": megabytes})
    assert view.state is RunState.SUCCEEDED
    log = stack.run_log(view.run_id or "")
    assert "output dropped" in log
    assert len(log) < 32 * 1024**2
    assert sum(path.stat().st_size for path in stack.data.rglob("*") if path.is_file()) < 1024**3


@pytest.mark.matrix
def test_ten_gigabytes_of_files_end_at_the_boxs_own_disk(stack: Stack, model: str, tmp_path: Path) -> None:
    assert pushed(stack, tmp_path, "e2e-fills", sources.GREEDY).state is VersionState.READY
    view = evaluated(stack, "e2e-fills", model, env_args={"what": "file", "megabytes": 10_000})
    assert view.state is RunState.FAILED
    with stack.client() as hub:
        failure = hub.runs.get(view.run_id or "").failure
    assert failure is not None
    assert failure.kind in {FailureKind.ENVIRONMENT, FailureKind.LIMIT}
    assert any(words in failure.message for words in ("No space left", "File too large", "memory")), failure


@pytest.mark.matrix
@pytest.mark.parametrize("megabytes", [100, 2500])
def test_rollouts_that_are_too_large_are_failures_that_say_so(
    stack: Stack, model: str, tmp_path: Path, megabytes: int
) -> None:
    name = f"e2e-fat-{megabytes}"
    assert pushed(stack, tmp_path, name, sources.GREEDY).state is VersionState.READY
    arguments = {"what": "rollout", "megabytes": megabytes}
    view = evaluated(stack, name, model, env_args=arguments, state_columns=("opaque",), max_retries=0, concurrency=1)
    rows = stack.rollouts(view.id)
    assert all(row.reward is None and row.outcome is Outcome.FAILED and row.failure_message for row in rows)
    assert rows or view.state is RunState.FAILED


def test_what_never_returns_costs_its_own_rollouts(stack: Stack, model: str, tmp_path: Path) -> None:
    assert pushed(stack, tmp_path, "e2e-endless", sources.ENDLESS).state is VersionState.READY
    view = evaluated(stack, "e2e-endless", model, timeout_s=3, max_retries=0, concurrency=1)
    assert view.state is RunState.SUCCEEDED
    rows = {row.example: row for row in stack.rollouts(view.id)}
    assert {example: row.outcome for example, row in rows.items()} == {
        0: Outcome.OK,
        1: Outcome.FAILED,
        2: Outcome.FAILED,
        3: Outcome.OK,
    }
    for example in (1, 2):
        assert rows[example].reward is None
        assert rows[example].failure_kind in {FailureKind.VERIFIER, FailureKind.LIMIT, FailureKind.ENVIRONMENT}
        assert rows[example].failure_message


def in_wheel(name: str, content: bytes = b"x", mode: int = 0o100644) -> Callable[[Path, Path], None]:
    """Adds a member to a good wheel."""

    def add(wheel: Path, sdist: Path) -> None:
        info = zipfile.ZipInfo(name)
        info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr(info, content)

    return add


def in_sdist(name: str, content: bytes = b"x", link: str = "") -> Callable[[Path, Path], None]:
    """Adds a member to a good sdist; `link` makes it a symbolic link."""

    def add(wheel: Path, sdist: Path) -> None:
        info = tarfile.TarInfo(f"e2e_archive-0.1.0/{name}" if not name.startswith("/") else name)
        info.type, info.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
        info.size = 0 if link else len(content)
        plain = io.BytesIO(gzip.decompress(sdist.read_bytes()))
        with tarfile.open(fileobj=plain, mode="a") as archive:
            archive.addfile(info, None if link else io.BytesIO(content))
        sdist.write_bytes(gzip.compress(plain.getvalue()))

    return add


ZEROS = b"\0" * (100 * 1024**2)
HOSTILE_ARCHIVES = {
    "parent-wheel": (in_wheel("../../escaped.py"), "path that leaves"),
    "parent-sdist": (in_sdist("../../escaped.py"), "path that leaves"),
    "absolute-sdist": (in_sdist("/escaped.py"), "absolute path"),
    "link-wheel": (in_wheel("link.py", b"/etc/passwd", 0o120777), "is a link"),
    "link-sdist": (in_sdist("link.py", link="/etc/passwd"), "is a link"),
    "bomb-wheel": (in_wheel("bomb.py", ZEROS), "times its size"),
    "bomb-sdist": (in_sdist("bomb.py", ZEROS), "times its size"),
}


SAMPLE = ("parent-wheel", "bomb-sdist")  # of what tests/hub/registry/test_hostile_archives.py tests in full


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in SAMPLE else [pytest.mark.matrix]) for case in HOSTILE_ARCHIVES]
)
def test_a_hostile_archive_is_refused_and_says_why(stack: Stack, tmp_path: Path, case: str) -> None:
    spoil, reason = HOSTILE_ARCHIVES[case]
    wheel, sdist = make_pair(tmp_path, "e2e-archive")
    spoil(wheel, sdist)
    assert reason in push_raw(stack, "e2e-archive", wheel, sdist)
    with stack.client() as hub:
        assert "e2e-archive" not in {environment.name for environment in hub.environments.list(owner=USER)}


def push_raw(stack: Stack, name: str, wheel: Path, sdist: Path) -> str:
    """Push files past the CLI's own checks; the hub's refusal."""
    files = [PushFile(filename=p.name, sha256=LocalBlob.of(p).sha256, size=p.stat().st_size) for p in (wheel, sdist)]
    with stack.client() as hub, pytest.raises(ApiError) as refused:
        hub.environments.push(
            USER, PushRequest(name=name, version="0.1.0", wheel=files[0], sdist=files[1]), wheel, sdist
        )
    assert refused.value.status in {400, 413, 422}
    return f"{refused.value.code} {refused.value} {refused.value.fields}"
