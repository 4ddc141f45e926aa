"""What a share link tells of how an evaluation was made: what its numbers mean needs, no names of secrets and hosts."""

from __future__ import annotations

from envhub.packaging.conversation import clipped, pretty
from envhub.protocol.base import Json

from hub.evals.hidden_values import hidden
from hub.evals.models import Evaluation

TOLD = (
    *("num_examples", "rollouts_per_example", "split", "seed", "sampling"),
    *("env_args", "taskset", "harness", "timeout_s", "replay"),
)


def shared_settings(evaluation: Evaluation) -> list[tuple[str, str]]:
    """(setting, its text), without what is not set."""
    values = [(name, _told(name, hidden(evaluation.config.get(name)))) for name in TOLD]
    return [
        (name, clipped(value) if isinstance(value, str) else pretty(value))
        for name, value in values
        if value not in (None, {}, (), [])
    ]


def _told(name: str, value: Json) -> Json:
    """Of a replay not what it is of: ids lead nowhere from here."""
    return {key: value[key] for key in ("example", "calls")} if name == "replay" and value else value
