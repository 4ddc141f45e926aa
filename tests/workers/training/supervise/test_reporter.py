"""What is uploaded is whole, whatever the learner removes meanwhile; a step is told with the learner's figures."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envhub.protocol.models.catalog import LocalTarget
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import AdapterReport, CheckpointReport, PolicyTarget, TrainPayload

from workers.training.journal.manifest import NAME as JOURNAL_MANIFEST
from workers.training.learner.directory.folders import write_folder
from workers.training.learner.directory.reports import LearnerState, LearnerStep, append_line, replace_file
from workers.training.learner.directory.run_dir import RunDir
from workers.training.supervise import reporter as module
from workers.training.supervise.directory import note_reported
from workers.training.supervise.reporter import Reporter, awaited_step, learner_step, release

CONFIG = {"model": "hub/tiny", "env": [{"id": "alice/a"}], "max_steps": 4, "adapters": {"interval": 2}}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Job:
    """A hub that keeps what it is sent; `meanwhile` happens before each upload."""

    meanwhile: Callable[[], None] = lambda: None
    posted: list[Any] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def artifacts(self) -> Any:
        async def upload_blob(path: Path) -> str:
            self.meanwhile()
            return sha(path.read_text())

        return SimpleNamespace(upload_blob=upload_blob)

    @property
    def run(self) -> Any:
        async def post(path: str, body: Any, reply: Any) -> None:
            self.posted.append(body)

        return SimpleNamespace(post=post)

    @property
    def lease(self) -> Any:
        return SimpleNamespace(log=self.said.append)


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    """After step 2, which has a checkpoint."""
    made = RunDir(tmp_path / "run")
    made.base.mkdir(parents=True)
    (made.base / "tokenizer.json").write_text("base's")

    def fill(folder: Path) -> None:
        for name in ("config.json", "one.safetensors", "two.safetensors"):
            (folder / name).write_text(f"{name} of {folder.parent.name}")

    write_folder(made.version(2), 2, "full", fill)
    write_folder(made.checkpoint(2), 2, "checkpoint", fill)
    made.journal.mkdir()
    (made.journal / "step-000002.safetensors").write_text("batch")
    (made.journal / JOURNAL_MANIFEST).write_text('{"kind":"batch","step":2}\n')
    return made


def reporter(run_dir: RunDir, job: Job, **asked: Any) -> Reporter:
    config = TrainingConfig.model_validate(CONFIG | {"trainer": {"mode": "full"}} | asked)
    model = PolicyTarget(reference="hub/tiny", base=LocalTarget(fingerprint="f", engine="torch", files={}, urls={}))
    payload = TrainPayload(training_id="t", config=config, model=model, environments=())
    return Reporter(job, payload, run_dir, SimpleNamespace())  # type: ignore[arg-type]


def remove(run_dir: RunDir) -> None:
    """As learner and coordinator do when they are some steps further."""
    for folder in (run_dir.version(2), run_dir.checkpoint(2)):
        shutil.rmtree(folder, ignore_errors=True)
    (run_dir.journal / "step-000002.safetensors").unlink(missing_ok=True)


@pytest.mark.parametrize("when", ["before its upload", "during its upload"])
async def test_a_model_that_is_due_gets_into_the_catalog_whole(run_dir: RunDir, when: str) -> None:
    job = Job()
    reports = reporter(run_dir, job)
    reports.step(2, {})
    if when.startswith("before"):
        remove(run_dir)
    else:
        job.meanwhile = lambda: remove(run_dir)
    await reports.adapter(2)
    (report,) = job.posted
    assert isinstance(report, AdapterReport)
    assert report.files == {
        "tokenizer.json": sha("base's"),
        **{name: sha(f"{name} of weights") for name in ("config.json", "one.safetensors", "two.safetensors")},
    }
    assert not list((run_dir.root / "uploads").glob("*weights-*"))


async def test_weights_that_a_killed_worker_had_told_of_but_not_uploaded_get_into_the_catalog(run_dir: RunDir) -> None:
    reporter(run_dir, Job()).step(2, {})
    note_reported(run_dir, 2)
    remove(run_dir)
    job = Job()
    again = reporter(run_dir, job)
    running = asyncio.create_task(again.run())
    again.catch_up(2)
    await again.finish()
    running.cancel()
    assert [(type(report), report.step) for report in job.posted] == [(AdapterReport, 2), (CheckpointReport, 2)]


async def test_a_checkpoint_is_uploaded_whole(run_dir: RunDir) -> None:
    job = Job(meanwhile=lambda: remove(run_dir))
    reports = reporter(run_dir, job)
    note_reported(run_dir, 2)
    await reports.finish()
    (report,) = job.posted
    assert report.files["journal/step-000002.safetensors"] == sha("batch")
    assert {name.partition("/")[0] for name in report.files} == {"checkpoint", "weights", "journal"}
    assert len(report.files) == 4 + 4 + 2


async def test_checkpoints_that_were_replaced_before_their_upload_are_named(run_dir: RunDir) -> None:
    job = Job()
    reports = reporter(run_dir, job, checkpoints={"interval": 2})
    await reports.finish()
    write_folder(run_dir.version(8), 8, "full", lambda folder: None)
    write_folder(run_dir.checkpoint(8), 8, "checkpoint", lambda folder: None)
    (run_dir.journal / "step-000008.safetensors").write_text("batch")
    with (run_dir.journal / JOURNAL_MANIFEST).open("a") as manifest:
        manifest.write('{"kind":"batch","step":8}\n')
    note_reported(run_dir, 2)
    await reports.finish()
    assert job.said == []
    note_reported(run_dir, 8)
    await reports.finish()
    assert [line.partition(" in the hub")[0] for line in job.said] == ["no checkpoint of step 4, 6"]


async def test_a_checkpoint_that_the_learner_removes_before_its_step_is_reported_is_uploaded(run_dir: RunDir) -> None:
    job = Job()
    reports = reporter(run_dir, job)
    reports.step(2, {})
    remove(run_dir)
    await reports._new_checkpoints()
    assert job.posted == []  # who goes on from it does not come to its step again
    note_reported(run_dir, 2)
    await reports._new_checkpoints()
    assert [(type(report), report.step) for report in job.posted] == [(CheckpointReport, 2)]
    assert not list((run_dir.root / "uploads").glob("checkpoint-*"))


async def test_what_a_killed_worker_had_half_removed_is_not_uploaded_in_part(
    run_dir: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path) -> None:
        next(path for path in folder.rglob("*") if path.is_file()).unlink()
        raise KeyboardInterrupt

    first = reporter(run_dir, Job())
    note_reported(run_dir, 2)
    first.step(2, {})
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            release(run_dir.root / "uploads" / "checkpoint-000002")
    job = Job()
    await reporter(run_dir, job).finish()
    assert [len(report.files) for report in job.posted] == [4 + 4 + 2]


async def test_what_is_being_removed_is_not_uploaded_in_part(run_dir: RunDir) -> None:
    job = Job()
    reports = reporter(run_dir, job)
    note_reported(run_dir, 2)
    (run_dir.checkpoint(2) / "one.safetensors").unlink()
    (run_dir.version(2) / "one.safetensors").unlink()
    await reports.finish()
    await reports.adapter(2)
    assert job.posted == []
    assert "do not get into the catalog" in job.said[0]


async def test_only_what_is_due_or_wanted_gets_into_the_catalog(run_dir: RunDir) -> None:
    job = Job()
    reports = reporter(run_dir, job)
    write_folder(run_dir.version(3), 3, "full", lambda folder: None)
    await reports.adapter(3)
    assert job.posted == []
    await reports.adapter(3, wanted=True)
    assert [(report.step, report.final) for report in job.posted] == [(3, False)]


@pytest.mark.parametrize(("phase", "found"), [("replaying", True), ("done", False)])
async def test_the_figures_of_a_step_are_waited_for_while_the_learner_replays(
    run_dir: RunDir, monkeypatch: pytest.MonkeyPatch, phase: Any, found: bool
) -> None:
    monkeypatch.setattr(module, "LINE_POLLS", 2)
    replace_file(run_dir.state, LearnerState(phase=phase, step=1, checkpoint=1, t=0.0, pid=1))
    waiting = asyncio.create_task(awaited_step(run_dir, 2))
    await asyncio.sleep(0.4)
    append_line(run_dir.metrics, LearnerStep(step=2, version=2, loss=0.5))
    assert (await waiting is not None) == found


def test_a_replays_figures_are_taken_not_those_of_the_life_before(run_dir: RunDir) -> None:
    for step, loss in ((1, 0.1), (2, 0.2), (3, 0.3), (2, 0.25)):
        append_line(run_dir.metrics, LearnerStep(step=step, version=step, loss=loss))
    found = {step: learner_step(run_dir, step) for step in (1, 2, 3, 4)}
    losses = {step: one.loss for step, one in found.items() if one is not None}
    assert losses == {1: 0.1, 2: 0.25}  # the third comes again
