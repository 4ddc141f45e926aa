"""What of an evaluation's stored configuration decides what its score means, and how people are told."""

from __future__ import annotations

import json

from envhub.protocol.base import Json, JsonObject

MEASURED = ("env_args", "taskset", "harness", "sampling", "judges", "allow_hosts", "replay")
LONGEST = 120  # characters of one setting in words


def measured(config: JsonObject) -> JsonObject:
    """Those of MEASURED that were given. vf-eval writes down what it leaves to the endpoint, too: that is none."""
    sampling = {name: value for name, value in (config.get("sampling") or {}).items() if not _is_default(name, value)}
    return {name: value for name in MEASURED if (value := {**config, "sampling": sampling}.get(name))}


def _is_default(name: str, value: Json) -> bool:
    return value is None or value == {} or (name, value) == ("n", 1)


def in_words(config: JsonObject) -> tuple[str, ...]:
    """`sampling temperature=0.2`, one for each that was given; the split where it is not `eval`."""
    split = config.get("split", "eval")
    given = [_said(name, value) for name, value in measured(config).items()]
    return (*([f"split {split}"] if split != "eval" else []), *given)


def _said(name: str, value: Json) -> str:
    if name == "replay":
        return f"replay of example {value.get('example')} from call {value.get('calls')}"
    return f"{name} {_text(value)}"


def _text(value: Json) -> str:
    if isinstance(value, dict):
        text = ", ".join(f"{name}={json.dumps(value[name], ensure_ascii=False)}" for name in sorted(value))
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
