"""A run that ends before its last step, by its user or because nothing is left to learn.

The learner finishes its step, and where it got to is kept in the hub: as a checkpoint, to go on from, and in the
catalog, to evaluate and serve.
"""

from __future__ import annotations

import asyncio
import shutil

from workers.runs.execution import Job
from workers.training.journal.reader import JournalReader
from workers.training.learner.directory.run_dir import RunDir
from workers.training.supervise.reporter import Reporter


async def save_last(job: Job, run_dir: RunDir, learning: asyncio.Task[None], reporter: Reporter) -> int:
    """Until the hub has all that was trained; then the directory is of no use. Raises what both of them raise.

    Gives the step, 0 when nothing was trained.
    """
    if learning.cancelling() or not run_dir.journal.exists() or not JournalReader(run_dir.journal).steps():
        return 0  # the run has failed, or nothing is trained yet
    job.lease.log("stopping: the learner finishes its step and saves a checkpoint")
    run_dir.stop.touch()
    await learning
    step = newest_version(run_dir)
    reporter.catch_up(step)
    await reporter.finish()
    if step:
        await reporter.adapter(step, wanted=True)
    job.lease.log(f"ended after step {step}")
    shutil.rmtree(run_dir.root)
    return step


def newest_version(run_dir: RunDir) -> int:
    """The newest published weights; 0 for none."""
    return max((int(path.name[1:]) for path in run_dir.weights.glob("v[0-9]*")), default=0)
