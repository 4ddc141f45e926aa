"""Where a run goes on: with evaluations that an earlier life did not finish. Called by workers.training.run."""

from __future__ import annotations

from collections.abc import Callable

from workers.training.learner.run_dir import RunDir
from workers.training.supervise.directory import evaluated
from workers.training.supervise.stopping import newest_version


def version_to_begin_with(run_dir: RunDir, is_due: Callable[[int], bool]) -> int:
    """The newest weights, or the first whose evaluations are due and the hub has not; weights after them follow."""
    newest = newest_version(run_dir)
    missing = range(max(1, evaluated(run_dir) + 1), newest)
    return next((step for step in missing if is_due(step) and run_dir.version(step).is_dir()), newest)
