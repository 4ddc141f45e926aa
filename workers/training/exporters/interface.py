"""What every exporter can do. workers.training.exporters.follow calls it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics


@dataclass(frozen=True)
class RunInfo:
    """What an external run is made from. Its identity is `training_id`, in every life of the run."""

    training_id: str
    name: str
    config: Mapping[str, object]  # JSON


class ExportFailed(Exception):
    """It may work later: a server is away or busy."""


class ExportRefused(Exception):
    """It will never work as configured; the message says what to change."""


class Exporter(Protocol):
    """One target. Every life of a run gives it everything from the first record on: what it has, it passes over.

    Every method may raise ExportFailed (it is called again with the same) and ExportRefused (the exporter ends).
    """

    name: str

    async def start(self, run: RunInfo) -> None:
        """Make the external run, or find the one of an earlier life."""

    async def step(self, metrics: StepMetrics) -> None:
        """A step was trained."""

    async def evaluation(self, point: EvaluationPoint) -> None:
        """An evaluation has ended."""

    async def finish(self, state: RunState) -> None:
        """The run ends; `queued` when it will go on later."""

    async def close(self) -> None:
        """Release what it holds; always called, once."""
