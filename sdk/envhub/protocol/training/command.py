"""How to measure what a training run has made, as it was trained. For `hub train show` and the page of weights."""

from __future__ import annotations

import json
import shlex
from typing import Any

from envhub.protocol.base import JsonObject

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
