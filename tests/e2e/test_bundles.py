"""A version is carried from a hub with a network to one without: one command each, and it is built, checked and run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from envhub.packaging.bundles import open_bundle
from envhub.protocol.registry.packages import VersionState, VersionView

from infra.demo.processes import Role, kill
from tests.e2e.endpoints import EndpointThread
from tests.e2e.package_runs import says
from tests.e2e.stack import USER, Stack, free_port, wait_until
from tests.e2e.test_backup_drill import NO_SERVICES
from tests.e2e.test_needs import HEAD, TAIL, version_of
from tests.factories.packages import write_package
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.matrix, pytest.mark.verifiers, pytest.mark.sandbox]
NAME, DATA = "e2e-travels", "e2e/journey"
SOURCE = f"""{HEAD}def load_environment() -> vf.Environment:
    rows = load_dataset("{DATA}", split="train")
{TAIL}"""
NOWHERE = "http://127.0.0.1:9/simple/"  # nobody listens there


def administrator(stack: Stack) -> dict[str, str]:
    return {"HUB_TOKEN": stack.make_token("admin", "read,write,admin")}


@pytest.fixture(scope="module")
def bundle(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> tuple[VersionView, Path]:
    """Of a version that has loaded a data set."""
    folder = tmp_path_factory.mktemp("bundle")
    rows = folder / "rows"
    rows.mkdir()
    (rows / "train.jsonl").write_text(json.dumps({"question": "one", "answer": "one"}) + "\n")
    stack.cli("data", "add", DATA, str(rows), **administrator(stack))
    built = stack.wait_ready(stack.push(write_package(folder, NAME, source=SOURCE)))
    assert all(check.passed for check in built.checks), built.checks
    stack.cli("bundle", "export", NAME, "-o", str(folder / "file"))
    return built, folder / "file"


@contextmanager
def isolated(data: Path, key: str, *options: str) -> Iterator[Stack]:
    """A hub that trusts the key. Its worker has nothing of anybody's cache, and reaches no index."""
    alone = {"WORKER_DATA": str(data / "worker"), "WORKER_PACKAGE_INDEX_URL": NOWHERE, "WORKER_TORCH_INDEX_URL": "none"}
    settings = {**NO_SERVICES, **alone, "HUB_TRUSTED_BUNDLE_KEYS": json.dumps([key])}
    endpoints = EndpointThread()
    made = Stack(data, free_port(), settings, endpoints, options=options)
    try:
        made.start()
        yield made
    finally:
        left = made.stop()
        endpoints.close()
    assert not left


def test_it_is_built_from_its_own_wheels_and_runs(bundle: tuple[VersionView, Path], tmp_path: Path) -> None:
    built, file = bundle
    with isolated(tmp_path / "hub", open_bundle(file).signature.key) as there:
        said = there.cli("bundle", "import", str(file), "--owner", USER, **administrator(there))
        assert f"added data set {DATA}@" in said.out
        found = version_of(there, NAME)
        assert (found.state, found.lock_sha256) == (VersionState.READY, built.lock_sha256), there.log_tail()
        assert all(check.passed for check in found.checks), found.checks
        assert found.origin is not None
        assert found.origin.reference == f"{USER}/{NAME}@{built.version}"

        model = there.register(PolicyEndpoint(answer=says("one")))
        evaluation = there.cli("eval", "run", NAME, "-m", model, "-n", "1", "-r", "2", "--json").json
        assert evaluation["summary"]["reward"]["mean"] == 1.0

        again = there.cli("bundle", "import", str(file), "--owner", USER, **administrator(there))
        assert "was here already" in again.err
        assert version_of(there, NAME) == found


@pytest.mark.parametrize("uploads", [1, 60])
def test_a_hub_that_is_killed_while_it_comes_in_shows_nothing_and_then_everything(
    uploads: int, bundle: tuple[VersionView, Path], tmp_path: Path
) -> None:
    _, file = bundle
    with isolated(tmp_path / "hub", open_bundle(file).signature.key, "--no-worker") as there:
        token = administrator(there)
        line = ("bundle", "import", str(file), "--owner", USER, "--no-wait")
        there.make_token(USER, "read")
        coming = there.start_cli(*line, **token)
        inbox = there.data / "blobs" / "uploads"
        wait_until(lambda: len(list(inbox.glob("*/*"))) >= uploads, 60, lambda: "nothing is uploaded", 0.01)
        kill([*there.pids(Role.WEB), coming.pid])
        coming.wait()
        wait_until(lambda: there.stop() is not None, 60, there.log_tail)
        there.start()
        with there.client() as hub:
            assert list(hub.environments.list()) == []
            assert list(hub.data.list()) == []
        assert there.cli(*line, "--json", **token).json["created"] is True
        with there.client() as hub:
            assert [data.repository for data in hub.data.list()] == [DATA]
