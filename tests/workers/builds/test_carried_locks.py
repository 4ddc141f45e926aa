"""A lock that came in a bundle is installed as it is where it fits; elsewhere it is said what fits."""

from __future__ import annotations

from envhub.protocol.registry.builds import BuildPayload, EnvironmentLock
from envhub.protocol.registry.packages import GenerationEvidence
from envhub.protocol.runs import FailureKind

from workers.builds.again import explained, fits_here
from workers.index.errors import index_away
from workers.runs.errors import RunFailed
from workers.venvs import interpreters


def lock(python: str = "", platform: str = "") -> EnvironmentLock:
    own = interpreters.present()[0].short
    return EnvironmentLock(
        python=python or own, platform=platform or interpreters.host_platform(), verifiers="", wheels=()
    )


def payload(previous: EnvironmentLock | None, *, keeps_lock: bool = True) -> BuildPayload:
    blob = {"sha256": "0" * 64, "size": 1}
    return BuildPayload(
        version_id="x",
        owner="alice",
        name="tiny-env",
        version="0.1.0",
        module="tiny_env",
        requires_python="",
        wheel=blob,
        wheel_filename="w.whl",
        sdist=blob,
        evidence=GenerationEvidence(generation=None, specifier="", constraint_set=""),
        dependencies=(),
        owner_index_url="",
        has_readme=True,
        previous=previous,
        keeps_lock=keeps_lock,
    )


def test_a_lock_fits_the_platform_and_python_that_it_was_made_for() -> None:
    assert fits_here(lock())
    assert not fits_here(lock(platform="linux_riscv64"))
    assert not fits_here(lock(python="3.1"))


def test_one_that_does_not_fit_names_the_worker_that_is_needed_when_there_is_no_index() -> None:
    told = explained(index_away("nobody answers"), payload(lock(platform="linux_riscv64"))).failure
    assert (told.kind, told.code) == (FailureKind.INFRASTRUCTURE, "lock_does_not_fit")
    assert "on linux_riscv64; this worker has Python" in told.message
    assert "Start a worker with Python" in told.hint


def test_other_failures_and_other_versions_are_told_as_they_are() -> None:
    other = RunFailed.because(FailureKind.INFRASTRUCTURE, "disk_full", "no room")
    assert explained(other, payload(lock())) is other
    away = index_away("nobody answers")
    assert explained(away, payload(lock(), keeps_lock=False)) is away
    assert explained(away, payload(None)) is away
