"""Builds the `hub eval run` command for a configuration, shown by the hub's pages and by the command line."""

from __future__ import annotations

import json
from shlex import quote

from pydantic import ValidationError

from envhub.protocol.base import JsonObject
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView

_FLAGS = {
    "num_examples": "-n",
    "rollouts_per_example": "-r",
    "split": "--split",
    "seed": "--seed",
    "name": "--name",
    "timeout_s": "--timeout",
    "concurrency": "--concurrency",
    "max_retries": "--max-retries",
    "visibility": "--visibility",
}
# Always written, because a package may have its own defaults for these.
_ALWAYS = {"num_examples", "rollouts_per_example"}
_SAMPLING = {"temperature": "--temperature", "max_tokens": "--max-tokens"}


def command_of(config: EvaluationConfig, *, team: str = "") -> str:
    """Return the command without options at their defaults. team: the evaluation's owner, if not the user."""
    words = ["hub", "eval", "run", config.environment, "-m", config.model]
    words += ["--team", team] if team else []
    values = config.model_dump(mode="json")
    for name, flag in _FLAGS.items():
        if config.replay and name == "num_examples":
            continue  # a replay always has one example
        if values[name] is not None and (
            name in _ALWAYS or values[name] != EvaluationConfig.model_fields[name].default
        ):
            words += _option(flag, str(values[name]))
    sampling = dict(config.sampling)
    for name, flag in _SAMPLING.items():
        if name in sampling:
            words += _option(flag, json.dumps(sampling.pop(name)))
    tables = {
        "--sampling": sampling,
        "--env-args": config.env_args,
        "--taskset": config.taskset,
        "--harness": config.harness,
    }
    for flag, table in tables.items():
        words += _table(flag, table)
    if config.replay:
        words += _option("--replay", str(config.replay))
    if config.state_columns:
        words += _option("--state-columns", ",".join(config.state_columns))
    for flag, names in (("--secret", config.secrets), ("--allow-host", config.allow_hosts)):
        for name in names:
            words += _option(flag, name)
    for name, model in config.judges.items():
        words += _option("--judge", f"{name}={model}")
    return " ".join(quote(word) for word in words)


def command_like(view: EvaluationView, model: str) -> str:
    """Return the command that evaluates `model` on the same version and with the same settings as `view`."""
    version = f"@{view.version}" if view.version else ""
    fields = {"environment": view.environment + version, "model": model}
    kept = {name: value for name, value in view.config.items() if name in EvaluationConfig.model_fields}
    try:
        config = EvaluationConfig.model_validate(kept | fields | {"name": "", "visibility": None})
    except ValidationError:  # stored under other rules, or pushed
        config = EvaluationConfig.model_validate(fields)
    return command_of(config)


def _table(flag: str, table: JsonObject | None) -> list[str]:
    return [flag, json.dumps(table, ensure_ascii=False)] if table else []


def _option(flag: str, value: str) -> list[str]:
    """Return an option; a value that begins with a dash is joined to its flag, or it would be read as another flag."""
    return [f"{flag}={value}"] if value.startswith("-") and flag.startswith("--") else [flag, value]
