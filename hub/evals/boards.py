"""Which evaluations are ranked together: those whose scores were measured in the same way."""

from __future__ import annotations

import hashlib
import json

from envhub.protocol.evals.measured import measured

from hub.evals.models import Evaluation


def board_key(row: Evaluation) -> str:
    """Names the settings that the evaluation shares with those it is compared with; "" before its first score.

    A replay is on none: its model has not answered alone.

    It is stored, so that ranking reads an index: another rule needs a migration that fills it again.
    """
    if row.config.get("replay") or not (row.aggregate.get("reward") or {}).get("n"):
        return ""
    parts = [str(row.version_id), row.config["split"], examples_of(row), measured(row.config)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def examples_of(row: Evaluation) -> int | None:
    """How many there are to measure: no more than the data set has, as soon as that is known."""
    if row.planned:
        return row.planned // int(row.config["rollouts_per_example"])
    wanted = int(row.config["num_examples"])
    return wanted if wanted > 0 else None
