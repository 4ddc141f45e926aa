"""What a share link tells of how an evaluation was made: what its numbers mean needs, no names of secrets and hosts."""

from __future__ import annotations

import re
from typing import Any

from envhub.packaging.conversation import clipped, pretty

from hub.evals.models import Evaluation

TOLD = (
    *("num_examples", "rollouts_per_example", "split", "seed", "sampling"),
    *("env_args", "taskset", "harness", "timeout_s"),
)
# arguments are no place for secrets, yet some are written there
_SECRET = re.compile(r"secret|password|passwd|credential|api_?key|(^|_)(token|key|auth)$", re.IGNORECASE)


def shared_settings(evaluation: Evaluation) -> list[tuple[str, str]]:
    """(setting, its text), without what is not set."""
    values = [(name, hidden(evaluation.config.get(name))) for name in TOLD]
    return [
        (name, clipped(value) if isinstance(value, str) else pretty(value))
        for name, value in values
        if value not in (None, {}, (), [])
    ]


def hidden(value: Any) -> Any:
    """JSON without the values whose names sound like secrets."""
    if isinstance(value, dict):
        return {name: "(not shown)" if _SECRET.search(name) else hidden(item) for name, item in value.items()}
    return [hidden(item) for item in value] if isinstance(value, list) else value
