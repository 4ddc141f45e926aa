"""Harnesses that this worker has tried and seen work: the next run of the same owner with the same one begins at once.

What a trial fetched is in the worker's stores by then. A mark says nothing but that, is its owner's alone, and does not
count for long: the stores forget what nobody uses.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envhub.protocol.runner import Load

from workers.runs.execution import Job

FOLDER = "tried-harnesses"
LASTS_S = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Mark:
    """Of one harness in one environment, which installs and loads as it did then."""

    path: Path
    environment: str

    def stands(self) -> bool:
        """Whether it was tried here, and not long ago."""
        try:
            return time.time() - self.path.stat().st_mtime < LASTS_S
        except FileNotFoundError:
            return False

    def set(self) -> None:
        """It works."""
        self.path.write_text(f"{self.environment}\n")


def mark_of(job: Job, environment: str, *, venv: Path, load: Load, allow: Sequence[str]) -> Mark:
    """The one for what decides what a harness gets: whose run it is, what is installed (`venv` is named by its lock),
    how it is loaded, and which hosts are open."""
    facts = [job.claim.owner, environment, venv.name, load.model_dump(mode="json"), sorted(allow)]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return Mark(job.settings.folder(FOLDER) / key, environment)
