"""The learner's end becomes a failure that says what to do; only what may help is tried again. The real process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from envhub.protocol.runs import FailureKind

from workers.inference.process import spawn
from workers.runs.children import Children
from workers.runs.errors import RunFailed
from workers.training.learner.directory.run_dir import RunDir
from workers.training.supervise import learner
from workers.training.supervise.learner import LearnerKeeper


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def keeper(tmp_path: Path, said: list[str]) -> LearnerKeeper:
    (tmp_path / "children").mkdir()
    return LearnerKeeper(RunDir(tmp_path), Children(tmp_path / "children"), tmp_path, log=said.append, run_id="r")


async def test_a_configuration_that_it_cannot_read_is_not_tried_again(keeper: LearnerKeeper) -> None:
    keeper.run_dir.config.write_text('{"mode": "prayer"}')
    with pytest.raises(RunFailed) as caught:
        await keeper.run()
    assert (caught.value.failure.code, caught.value.failure.kind) == ("learner_bad_config", FailureKind.LIMIT)
    assert "prayer" in caught.value.failure.message


async def test_a_line_of_any_length_does_not_end_the_reading(keeper: LearnerKeeper, said: list[str]) -> None:
    script = "import time; print('x' * 1_000_000, flush=True); time.sleep(0.3); print('after')"
    await keeper._read(await spawn([sys.executable, "-c", script], {}))
    assert said[-1] == "learner: after"


@pytest.mark.parametrize(("set_to", "passed"), [(None, "expandable_segments:True"), ("max_split_size_mb:64",) * 2])
def test_memory_comes_in_segments_that_grow_unless_the_operator_says_otherwise(
    keeper: LearnerKeeper, set_to: str | None, passed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    if set_to:
        monkeypatch.setenv("PYTORCH_ALLOC_CONF", set_to)
    assert keeper.variables()["PYTORCH_ALLOC_CONF"] == passed


def test_compiled_kernels_are_kept_with_the_workers_files(keeper: LearnerKeeper, tmp_path: Path) -> None:
    assert keeper.variables()["HOME"] == str(tmp_path)


def test_running_out_of_memory_has_a_hint(keeper: LearnerKeeper) -> None:
    failure = keeper.failure(4)
    assert failure.kind is FailureKind.LIMIT
    assert "token_budget" in failure.hint


def test_what_the_learner_says_itself_comes_first(keeper: LearnerKeeper) -> None:
    said = {"code": "not_finite", "message": "NaN in step 7", "hint": "look at it"}
    keeper.run_dir.error.write_text(json.dumps(said))
    failure = keeper.failure(5)
    assert (failure.message, failure.hint, failure.kind) == ("NaN in step 7", "look at it", FailureKind.POLICY)


def test_a_signal_is_the_machines_fault(keeper: LearnerKeeper) -> None:
    failure = keeper.failure(-9)
    assert (failure.code, failure.kind) == ("learner_died", FailureKind.INFRASTRUCTURE)
    assert "signal 9" in failure.message


def test_a_full_disk_is_named(keeper: LearnerKeeper) -> None:
    keeper._lines.append("SafetensorError: I/O error: No space left on device (os error 28)")
    failure = keeper.failure(1)
    assert (failure.code, failure.kind) == ("worker_disk_full", FailureKind.INFRASTRUCTURE)


async def test_one_that_never_gives_a_sign_of_life_is_given_up(
    keeper: LearnerKeeper, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "LOADING_S", 0.0)
    monkeypatch.setattr(learner, "PAUSE_S", 0.0)
    keeper.stall_s = 0.1
    with pytest.raises(RunFailed, match="signal 9"):
        await keeper.run()
    assert sum("has said nothing" in line and "it was starting" in line for line in said) == learner.RESTARTS + 1
