"""A run's directory is used again where it is the newest there is, and made from a checkpoint where it is not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.base import BlobRef
from envhub.protocol.runs import Claim, RunKind
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import PolicyTarget, ResumeState, TrainPayload

from workers.runs.errors import RunFailed
from workers.training.journal.batch import StepBatch
from workers.training.journal.reader import JournalReader
from workers.training.journal.writer import JournalWriter
from workers.training.learner.directory.run_dir import RunDir
from workers.training.supervise.beginning import version_to_begin_with
from workers.training.supervise.directory import (
    checkpoint_files,
    evaluated,
    last_written,
    note_evaluated,
    note_reported,
    prepare_directory,
    remove_old,
    reported,
)

CONFIG = TrainingConfig.model_validate({"model": "hub/tiny", "env": [{"id": "a/b"}]})


def payload(**changes: Any) -> TrainPayload:
    model = PolicyTarget(reference="hub/tiny")
    return TrainPayload(training_id="tr", config=CONFIG, model=model, environments=(), **changes)


def claim(attempt: int, run_id: str = "r") -> Claim:
    return Claim(
        run_id=run_id, kind=RunKind.TRAIN, attempt=attempt, token="t", lease_seconds=9, owner="alice", payload={}
    )


class Blobs:
    """Files in object storage."""

    def __init__(self) -> None:
        self.paths: dict[str, Path] = {}

    def refs(self, files: dict[str, Path]) -> dict[str, BlobRef]:
        made = {}
        for number, (name, path) in enumerate(files.items()):
            made[name] = BlobRef(sha256=f"{number:064x}", size=path.stat().st_size)
            self.paths[made[name].sha256] = path
        return made

    async def fetch(self, ref: BlobRef) -> Path:
        return self.paths[ref.sha256]


def trained(run_dir: RunDir, steps: int) -> None:
    """Batches, weights and checkpoints up to a step."""
    with JournalWriter(run_dir.journal) as journal:
        for step in range(1, steps + 1):
            journal.append(StepBatch(step, (), 0.0, {"said": step}))
            for folder in (run_dir.version(step), run_dir.checkpoint(step)):
                folder.mkdir(parents=True)
                (folder / "file").write_text(str(step))


async def test_the_same_worker_goes_on_with_its_own_directory(tmp_path: Path) -> None:
    run_dir = await prepare_directory(tmp_path, payload(), claim(1), Blobs().fetch)
    trained(run_dir, 3)
    note_reported(run_dir, 2)
    again = await prepare_directory(tmp_path, payload(reported_steps=3), claim(2), Blobs().fetch)
    assert JournalReader(again.journal).steps() == (1, 2, 3)
    assert reported(again) == 3


async def test_a_run_goes_on_with_the_first_evaluation_that_it_has_not_finished(tmp_path: Path) -> None:
    run_dir = await prepare_directory(tmp_path, payload(), claim(1), Blobs().fetch)
    trained(run_dir, 5)
    shutil.rmtree(run_dir.version(1))
    assert version_to_begin_with(run_dir, lambda step: step in {1, 3, 4}) == 3
    note_evaluated(run_dir, 4)
    again = await prepare_directory(tmp_path, payload(), claim(2), Blobs().fetch)
    assert version_to_begin_with(again, lambda _step: True) == 5
    assert evaluated(again) == 4


async def test_a_directory_that_another_worker_has_overtaken_is_made_anew(tmp_path: Path) -> None:
    run_dir = await prepare_directory(tmp_path, payload(), claim(1), Blobs().fetch)
    trained(run_dir, 5)
    note_reported(run_dir, 2)
    again = await prepare_directory(tmp_path, payload(reported_steps=4), claim(3), Blobs().fetch)
    assert not again.journal.exists()


async def test_a_directory_is_made_anew_when_another_worker_went_back_to_a_checkpoint_before_it(tmp_path: Path) -> None:
    run_dir = await prepare_directory(tmp_path, payload(), claim(1), Blobs().fetch)
    trained(run_dir, 5)
    note_reported(run_dir, 5)
    again = await prepare_directory(tmp_path, payload(reported_steps=3), claim(3), Blobs().fetch)
    assert not again.journal.exists()


async def test_a_worker_that_has_not_yet_caught_up_with_an_earlier_attempt_keeps_its_own_steps(tmp_path: Path) -> None:
    blobs = Blobs()
    first = await prepare_directory(tmp_path / "one", payload(), claim(1), blobs.fetch)
    trained(first, 2)
    resume = ResumeState(checkpoint_id="c", step=2, files=blobs.refs(checkpoint_files(first, 2)))
    known = payload(resume=resume, reported_steps=9)  # of the first worker, which is gone
    second = await prepare_directory(tmp_path / "two", known, claim(2), blobs.fetch)
    assert reported(second) == 2
    with JournalWriter(second.journal) as journal:
        journal.append(StepBatch(3, (), 0.0, {"said": 3}))
    note_reported(second, 3)
    again = await prepare_directory(tmp_path / "two", known, claim(3), blobs.fetch)
    assert (JournalReader(again.journal).steps(), reported(again)) == ((2, 3), 3)


async def test_another_worker_finds_all_that_it_needs_in_the_checkpoint(tmp_path: Path) -> None:
    blobs = Blobs()
    first = await prepare_directory(tmp_path / "one", payload(), claim(1), blobs.fetch)
    trained(first, 3)
    files = blobs.refs(checkpoint_files(first, 2))
    resume = ResumeState(checkpoint_id="c", step=2, files=files)
    second = await prepare_directory(tmp_path / "two", payload(resume=resume, reported_steps=3), claim(2), blobs.fetch)
    reader = JournalReader(second.journal)
    assert reader.steps() == (2,)
    assert reader.read(2).meta == {"said": 2}
    with JournalWriter(second.journal) as journal:
        assert journal.next_step == 3
    assert (second.version(2) / "file").read_text() == (second.checkpoint(2) / "file").read_text() == "2"


async def test_what_is_uploaded_does_not_grow_with_the_journal(tmp_path: Path) -> None:
    run_dir = await prepare_directory(tmp_path, payload(), claim(1), Blobs().fetch)
    trained(run_dir, 2)
    files = checkpoint_files(run_dir, 2)
    before = {name: path.read_bytes() for name, path in files.items()}
    with (run_dir.journal / "manifest.jsonl").open("a") as manifest:
        manifest.write('{"kind": "batch", "step": 3, "fi')  # the coordinator is in the middle of a line
    assert {name: path.read_bytes() for name, path in files.items()} == before
    assert {name: path.read_bytes() for name, path in checkpoint_files(run_dir, 2).items()} == before


@pytest.mark.parametrize("name", ["elsewhere/x", "weights/../../x", "weights//etc/x", "checkpoint/"])
async def test_a_file_that_does_not_belong_to_a_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    blobs = Blobs()
    resume = ResumeState(checkpoint_id="c", step=2, files=blobs.refs({name: file}))
    with pytest.raises(RunFailed, match="checkpoint"):
        await prepare_directory(tmp_path / "data", payload(resume=resume), claim(1), blobs.fetch)


def test_only_what_nobody_has_written_to_for_a_week_is_removed(tmp_path: Path) -> None:
    week = 7 * 24 * 3600.0
    for name, age in (("left", week + 60), ("going-on", 60)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").touch()
        os.utime(tmp_path / name / "metrics.jsonl", (0, week - age))  # appended to: that leaves the folder's own time
        os.utime(tmp_path / name, (0, -60))
    remove_old(tmp_path, now=week)
    assert [path.name for path in tmp_path.iterdir()] == ["going-on"]


def test_a_run_that_ends_while_its_directory_is_looked_at_is_no_error(tmp_path: Path) -> None:
    assert last_written(tmp_path / "gone") == 0.0
