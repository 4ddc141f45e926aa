"""How to measure what a training run has made, as it was trained. For `hub train show` and the page of weights."""

from __future__ import annotations

import json
import shlex
from typing import Any

from envhub.protocol.base import JsonObject
from envhub.protocol.training.config import TrainingConfig

TABLES = {"args": "-a", "taskset": "--taskset", "harness": "--harness"}
NUMBERS = {"max_tokens": "-t", "temperature": "-T"}


def evaluation_flags(config: JsonObject) -> str:
    """Flags of `hub eval run` for the first environment of a run: its arguments and its sampling, as far as given.

    Without them the score is of another task, and cannot be compared with the run's.
    """
    tables = config.get("env")
    table: Any = tables[0] if isinstance(tables, list) and tables else {}
    layers: tuple[Any, ...] = (config.get("sampling") or {}, table.get("sampling") or {})
    sampling = {key: value for layer in layers for key, value in layer.items() if value is not None}
    words = [word for key, flag in TABLES.items() if table.get(key) for word in (flag, json.dumps(table[key]))]
    words += [word for key, flag in NUMBERS.items() if sampling.get(key) for word in (flag, f"{sampling[key]}")]
    return shlex.join(words)


def evaluation_like(config: TrainingConfig, place: int, step: int) -> JsonObject:
    """Fields of an EvaluationConfig whose rollouts are made as those of a run's `[[env]]` at a step; `place` from 0.

    What the run was sent with (env_files) and its budgets of turns and tokens are not among them.
    """
    table = config.env[place]
    sampling = config.sampling_of(table)
    return {
        "env_args": table.args,
        "taskset": table.taskset,
        "harness": table.harness,
        "split": table.split or "train",
        "sampling": sampling.arguments(sampling.temperature_at(step, config.max_steps)),
        "timeout_s": table.timeout_s,
        "judges": table.judges,
        "secrets": config.secrets_of(table),
        "allow_hosts": tuple(dict.fromkeys((*config.allow_hosts, *table.allow_hosts))),
    }
