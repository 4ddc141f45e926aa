"""What a runner says of a rollout, within what statistics, columns and files can hold: the box may say anything."""

from __future__ import annotations

import math
import re

from envhub.protocol.rollouts import Outcome, RolloutRecord, Timing, Usage

NO_HASH = ""  # not known: the hub compares it with none
MOST_TOKENS = 2**53 - 1
LONGEST_S = 1e9
_HASH = re.compile(r"[0-9a-f]{64}")


def plausible(record: RolloutRecord) -> RolloutRecord:
    """The record with a well-formed hash, and counts and times that are numbers: one odd rollout costs one rollout.

    What has a failure has failed. The reward is judged where it is indexed (envhub.packaging.index_rows).
    """
    failed = record.failure is not None or record.outcome is Outcome.FAILED
    advantage = record.advantage
    changes = {
        "example_hash": record.example_hash if _HASH.fullmatch(record.example_hash) else NO_HASH,
        "outcome": Outcome.FAILED if failed else record.outcome,
        "reward": None if failed else record.reward,
        "usage": _usage(record.usage),
        "judge_usage": _usage(record.judge_usage),
        "timing": Timing(**{name: _seconds(value) for name, value in record.timing.model_dump().items()}),
        "advantage": advantage if advantage is None or math.isfinite(advantage) else None,
    }
    return record.model_copy(update=changes)


def _usage(usage: Usage) -> Usage:
    return Usage(**{name: min(max(0, count), MOST_TOKENS) for name, count in usage.model_dump().items()})


def _seconds(value: float) -> float:
    return min(max(0.0, value), LONGEST_S) if math.isfinite(value) else 0.0
