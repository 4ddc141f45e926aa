"""Send steps, evaluations, checkpoints and adapters to the hub, in order; each call is idempotent.

A step waits in `reports/` until the hub has it, so the successor of a killed worker reports what is missing. Weights
and checkpoints wait in `uploads/` as hard links, because the learner removes old ones however slow the upload is.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from envhub.errors import ApiError, ServerError
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics
from envhub.protocol.training.runs import (
    AdapterReport,
    AdapterView,
    CheckpointReport,
    CheckpointView,
    EvaluationReport,
    StepReply,
    StepReport,
    TrainPayload,
)
from envhub.protocol.training.trainer import TrainingMode

from workers.runs.execution import Job
from workers.training.coordinator.loop import report_dir
from workers.training.coordinator.segments import REPORT, KeptStep
from workers.training.exporters.exports import Exports
from workers.training.learner.directory.folders import MANIFEST
from workers.training.learner.directory.reports import (
    LearnerState,
    LearnerStep,
    WeightsManifest,
    newest_lines,
    read_file,
)
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.token_logprobs import remove_logprobs
from workers.training.supervise.directory import (
    CHECKPOINT,
    WEIGHTS,
    checkpoint_files,
    note_evaluated,
    note_reported,
    reported,
    tree,
)
from workers.training.supervise.merging import merged
from workers.training.supervise.token_logprobs import write_segments


@dataclass(frozen=True)
class Evaluated:
    """Queued after the last evaluation of a step."""

    step: int


HELD_CHECKPOINT = "checkpoint-"  # followed by its step: the folder in uploads/
Item = int | EvaluationPoint | Evaluated
LINE_POLL_S, LINE_POLLS = 0.05, 400
ON_POLICY_KL = 0.01  # bfloat16 compared with itself stays below this; wrong weights do not


@dataclass
class Reporter:
    """The queue of reports: `run` sends what `step` and `evaluation` add; `finish` waits until all is sent."""

    job: Job
    payload: TrainPayload
    run_dir: RunDir
    exports: Exports
    _items: asyncio.Queue[tuple[Item, Mapping[str, float]]] = field(default_factory=asyncio.Queue, init=False)
    _checkpoints: set[int] = field(default_factory=set, init=False)
    _last: StepMetrics | None = field(default=None, init=False)
    _queued: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._begun = reported(self.run_dir)

    def catch_up(self, version: int) -> None:
        """Queue the steps up to `version` that are neither reported nor queued, such as those of an earlier attempt.

        The last reported step is queued again if that attempt was killed before its weights were in the catalog.
        """
        told = reported(self.run_dir)
        if self._queued < told and self._held(told).exists():
            self.step(told, {})
        for step in range(max(told, self._queued) + 1, version + 1):
            self.step(step, {})

    def step(self, step: int, seconds: Mapping[str, float]) -> None:
        """Queue a step whose weights are served. `seconds` says where its time went."""
        self._queued = step
        if self._is_due(step):
            with suppress(FileNotFoundError):  # a version of an earlier attempt; `adapter` logs that
                self._hold_version(step)
        self._hold_checkpoint()
        self._items.put_nowait((step, seconds))

    def evaluation(self, point: EvaluationPoint) -> None:
        """Queue the result of an evaluation."""
        self._items.put_nowait((point, {}))

    def evaluated(self, step: int) -> None:
        """Queue that all evaluations after a step have ended."""
        self._items.put_nowait((Evaluated(step), {}))

    async def finish(self) -> None:
        """Wait until the hub has everything."""
        await self._items.join()
        await self._new_checkpoints()

    async def run(self) -> None:
        """Send in order until cancelled. Raises envhub.errors, LeaseLost."""
        while True:
            item, seconds = await self._items.get()
            if isinstance(item, EvaluationPoint):
                self.exports.add(item)
                self.job.lease.log(item.words())
                await self._post("evaluations", EvaluationReport(point=item), StepReply)
            elif isinstance(item, Evaluated):
                note_evaluated(self.run_dir, item.step)
            else:
                await self._step(item, seconds)
            self._items.task_done()

    async def _step(self, step: int, seconds: Mapping[str, float]) -> None:
        folder = report_dir(self.run_dir, step)
        if (folder / REPORT).exists():
            kept = KeptStep.model_validate_json((folder / REPORT).read_bytes())
            learner = await awaited_step(self.run_dir, step)
            segments = await asyncio.to_thread(write_segments, folder, kept, self.run_dir.logprobs_of(step))
            for segment in segments:
                await self.job.artifacts.upload_blob(folder / segment.sha256)
            metrics = merged(kept, learner, seconds, datetime.now(UTC))
            self.exports.add(metrics)
            await self._post("steps", StepReport(metrics=metrics, segments=segments), StepReply)
            self._last = metrics
            self._say(metrics)
        note_reported(self.run_dir, step)
        shutil.rmtree(folder, ignore_errors=True)
        remove_logprobs(self.run_dir.logprobs, step)
        # before the checkpoint: an attempt that resumes from the checkpoint does not repeat this step
        try:
            await self.adapter(step)
        except ApiError as error:
            if not isinstance(error, ServerError):  # the hub refuses it: the work is not lost with it
                await self._new_checkpoints()
            raise
        await self._new_checkpoints()

    def _say(self, metrics: StepMetrics) -> None:
        reward = "-" if metrics.reward_mean is None else f"{metrics.reward_mean:.4g}"
        note = f"reward {reward}"
        self.job.lease.progress(metrics.step, self.payload.config.max_steps, "steps", note)
        self.job.lease.log(f"step {metrics.step}: {note}, {metrics.trained_tokens} tokens trained")
        if not metrics.staleness_max and (metrics.kl or 0.0) > ON_POLICY_KL:
            self.job.lease.log(
                f"step {metrics.step}: learner and engine disagree about tokens that the newest weights have sampled "
                f"(KL {metrics.kl:.3g} nats): look at the engine's dtype; a quantised engine needs a larger kl_tau"
            )

    async def _new_checkpoints(self) -> None:
        """Upload every complete checkpoint of a reported step that was not uploaded yet."""
        while (folder := self._hold_checkpoint()) is not None:
            step = int(folder.name.removeprefix(HELD_CHECKPOINT))
            if step > reported(self.run_dir):
                return
            files, size = await self._upload(dict(tree(folder)))
            final = step == self.payload.config.max_steps
            report = CheckpointReport(step=step, files=files, size=size, final=final)
            await self._post("checkpoints", report, CheckpointView)
            self._say_missed(step)
            self._checkpoints.add(step)
            await asyncio.to_thread(release, folder)

    def _hold_checkpoint(self) -> Path | None:
        """Return the held checkpoint that waits for its upload, or hold the oldest complete one.

        It must be held before its step is reported: a learner far ahead of the reports removes it. Only one is held at
        a time, because it takes disk space.
        """
        for folder in self._uploads.glob(f"{HELD_CHECKPOINT}*"):
            return folder
        for path in sorted(self.run_dir.checkpoints.glob("step-*")):
            step = int(path.name.removeprefix("step-"))
            if step in self._checkpoints or not self.run_dir.version(step).is_dir():
                continue
            folder = self._uploads / f"{HELD_CHECKPOINT}{step:06d}"
            with suppress(FileNotFoundError):  # the learner has just replaced it by a newer one
                hold(folder, checkpoint_files(self.run_dir, step), (CHECKPOINT, WEIGHTS))
                return folder
        return None

    def _say_missed(self, step: int) -> None:
        """Log which checkpoints between the last upload and this one were lost: the learner keeps only two."""
        interval = self.payload.config.checkpoint_interval or self.payload.config.max_steps
        last = max(self._checkpoints, default=self._begun)
        if missed := [str(one) for one in range(last + interval - last % interval, step, interval)]:
            self.job.lease.log(
                f"no checkpoint of step {', '.join(missed)} in the hub: newer ones took their place before they were "
                "uploaded; a larger [checkpoints] interval costs the learner less"
            )

    async def adapter(self, step: int, *, wanted: bool = False) -> None:
        """Put a step's weights into the catalog if they are due or wanted."""
        if not (wanted or self._is_due(step)):
            return
        config = self.payload.config
        lora = config.trainer.mode is TrainingMode.LORA
        try:
            folder = self._hold_version(step)
        except FileNotFoundError:
            self.job.lease.log(f"the weights of step {step} are not here any more: they do not get into the catalog")
            return
        files, size = await self._upload(servable_files(self.run_dir, folder, whole_model=not lora))
        report = AdapterReport(
            step=step,
            mode=config.trainer.mode,
            files=files,
            size=size,
            rank=config.trainer.rank if lora else None,
            alpha=config.alpha if lora else None,
            reward_mean=self._last.reward_mean if self._last is not None else None,
            final=step == config.max_steps,
        )
        await self._post("adapters", report, AdapterView)
        await asyncio.to_thread(release, folder)

    def _is_due(self, step: int) -> bool:
        interval = self.payload.config.adapters.interval
        return step == self.payload.config.max_steps or bool(interval and step % interval == 0)

    @property
    def _uploads(self) -> Path:
        return self.run_dir.root / "uploads"

    def _held(self, step: int) -> Path:
        return self._uploads / f"weights-{step:06d}"

    def _hold_version(self, step: int) -> Path:
        folder, version = self._held(step), self.run_dir.version(step)
        hold(folder, {f"{WEIGHTS}/{name}": path for name, path in tree(version)}, (WEIGHTS,))
        return folder

    async def _upload(self, files: Mapping[str, Path]) -> tuple[dict[str, str], int]:
        found = {name: await self.job.artifacts.upload_blob(path) for name, path in files.items()}
        return found, sum(path.stat().st_size for path in files.values())

    async def _post(
        self,
        what: str,
        body: StepReport | EvaluationReport | CheckpointReport | AdapterReport,
        reply: type[StepReply] | type[CheckpointView] | type[AdapterView],
    ) -> None:
        await self.job.run.post(f"/training/{self.payload.training_id}/{what}", body, reply)


def servable_files(run_dir: RunDir, held: Path, *, whole_model: bool) -> dict[str, Path]:
    """Return a published version's files as an engine loads them.

    These are the adapter, or the weights with the base model's other files.
    """
    published = {name: path for name, path in tree(held / WEIGHTS) if name != MANIFEST}
    if not whole_model:
        return published
    rest = {
        path.name: path
        for path in run_dir.base.iterdir()
        if path.is_file() and not path.name.endswith((".safetensors", ".safetensors.index.json", ".bin"))
    }
    return {**rest, **published}


def hold(folder: Path, files: Mapping[str, Path], published: Sequence[str]) -> None:
    """Link files into `folder` unless it exists. Raises FileNotFoundError and makes no folder if some files are gone.

    published: the parts that have a manifest; a part's files may be listed while the part is being removed.
    """
    if folder.exists():
        return
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    for name, path in files.items():
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        link(path, unfinished / name)
    for part in published:
        manifest = read_file(unfinished / part / MANIFEST, WeightsManifest)
        if manifest is None or not all((unfinished / part / name).exists() for name in manifest.files):
            raise FileNotFoundError(unfinished / part)
    unfinished.rename(folder)


def release(folder: Path) -> None:
    """Remove a held folder. It is renamed first, so a kill leaves no partial folder under its name."""
    shutil.rmtree(folder.rename(folder.with_name(f".{folder.name}")))


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the file system has no hard links."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


async def awaited_step(run_dir: RunDir, step: int) -> LearnerStep | None:
    """Wait for the learner's line about a step and return it.

    It comes a moment after the weights are published; a learner that was killed in between writes it after its replay.
    """
    polls = 0
    while polls < LINE_POLLS:
        if (found := learner_step(run_dir, step)) is not None:
            return found
        await asyncio.sleep(LINE_POLL_S)
        polls += not will_train(run_dir, step)
    return None


def will_train(run_dir: RunDir, step: int) -> bool:
    """Return whether the learner is still before `step` and on its way there; its replay may take minutes."""
    state = read_file(run_dir.state, LearnerState)
    return state is not None and state.step < step and state.phase not in {"done", "failed"}


def learner_step(run_dir: RunDir, step: int) -> LearnerStep | None:
    """Return the learner's last line about a step; a replay's line follows an earlier attempt's.

    The file is only read.
    """
    with suppress(OSError):
        for line in newest_lines(run_dir.metrics):
            content = json.loads(line)
            if content["step"] == step:
                return LearnerStep.model_validate(content)
            if content["step"] < step:
                break  # the line is not there yet, or not again
    return None
