"""Finished groups on disk until the batch that they went into is committed: a crash loses no rollout that has ended."""

from __future__ import annotations

from collections.abc import Iterable, Set
from pathlib import Path

from pydantic import ValidationError

from workers.training.coordinator.plan import FinishedGroup, GroupPlan
from workers.training.journal.durable import write_durably


class FinishedGroups:
    """One file a group in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def find(self, plan: GroupPlan) -> FinishedGroup | None:
        """The group, if an earlier life of the run has finished just this one."""
        try:
            found = FinishedGroup.model_validate_json(self._path(plan.number).read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.plan == plan else None

    def put(self, group: FinishedGroup) -> None:
        """Keep it."""
        write_durably(self._path(group.plan.number), group.model_dump_json().encode())

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget groups whose fate is journaled."""
        for number in numbers:
            self._path(number).unlink(missing_ok=True)

    def drop_before(self, number: int, *, besides: Set[int]) -> None:
        """Forget what a crash left of groups whose fate was journaled."""
        for path in self._directory.glob("group-*.json"):
            found = int(path.stem.removeprefix("group-"))
            if found < number and found not in besides:
                path.unlink()

    def _path(self, number: int) -> Path:
        return self._directory / f"group-{number:08d}.json"
