"""How a run gets its sandbox from the worker's settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from envhub.protocol.runs import FailureKind

from workers.rollouts.sandbox_choice import chosen_sandbox
from workers.runs.errors import RunFailed
from workers.settings import WorkerEnvironment


async def test_a_run_without_its_engine_fails_and_says_how_to_start_it(tmp_path: Path) -> None:
    settings = WorkerEnvironment(
        hub_url="http://127.0.0.1:9", sandboxes="podman,bwrap", sandbox_engine=tmp_path / "engine.sock", data=tmp_path
    )  # type: ignore[arg-type]
    with pytest.raises(RunFailed) as failed:
        await chosen_sandbox(settings, patience_s=0.0)
    failure = failed.value.failure
    assert (failure.kind, failure.code) == (FailureKind.INFRASTRUCTURE, "sandbox_unavailable")
    assert "python -m workers.sandbox.engine" in (failure.hint or "")
