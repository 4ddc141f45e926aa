"""Describes an environment of the current generation for the version's page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from ..legacy.describe import fields_schema
from ..row_images import images, of_task

MAX_COUNTED = 200_000
MAX_COUNT_S = 20.0
CHUNK = 1000


class Current(Protocol):
    """The adapters described here: of the current generation and of its first releases."""

    env: Any

    @property
    def env_class(self) -> str:
        """The name of the environment's class."""
        ...

    @property
    def tasks_read(self) -> int:
        """The number of tasks read so far."""
        ...

    def task(self, index: int) -> Any:
        """Return a task; None past the last."""
        ...


def describe(adapter: Current, as_row: Callable[[Any], dict[str, Any]], rows: int) -> dict[str, Any]:
    """Return the body of the `described` frame."""
    first = adapter.task(0)
    found = []
    for index in range(rows):
        task = adapter.task(index)
        if task is None:
            break
        found.append(as_row(task))
    split: dict[str, Any] = {"size": size(adapter), "rows": found}  # which reads all tasks that may be read
    split["images"] = images(map(adapter.task, range(adapter.tasks_read)), of_task)
    return {
        "env_class": adapter.env_class,
        "splits": {"train": split, "eval": {**split, "rows_of": "train"}},
        "system_prompt": getattr(getattr(first, "data", None), "system_prompt", None),
        "tools": tools(adapter),
        "rewards": rewards(first),
        "message_type": "chat",
        "max_turns": _max_turns(adapter.env.config),
        "args_schema": {"taskset": {"annotation": "table", "fields": fields_schema(type(adapter.env.taskset.config))}},
    }


def size(adapter: Current) -> int | None:
    """Count the tasks; None for endless tasksets and for those too long to read."""
    if getattr(adapter.env.taskset, "INFINITE", False):
        return None
    started = time.monotonic()
    count = CHUNK
    while adapter.task(count - 1) is not None:
        if count >= MAX_COUNTED or time.monotonic() - started > MAX_COUNT_S:
            return None
        count += CHUNK
    return adapter.tasks_read


def tools(adapter: Current) -> list[dict[str, Any]]:
    """List the tools of the taskset's servers and of its tasks' servers."""
    taskset = adapter.env.taskset
    servers = [
        *type(taskset).toolsets(taskset.config),
        *type(taskset).task_type().toolsets(taskset.config.task),
    ]
    found = []
    for server in servers:
        prefix = f"{server.server_name}_" if server.server_name else ""
        for function in _decorated(server, "tool"):
            name = getattr(function, "tool_name", None) or function.__name__
            found.append({"name": prefix + name, "description": (function.__doc__ or "").strip()})
    return found


def rewards(task: Any) -> dict[str, float]:
    """Map each reward to its weight: metrics to 0, judges under the name of their reward."""
    if task is None:
        return {}
    found = {function.__name__: float(getattr(function, "_vf_weight", 1.0)) for function in task.hooks("reward")}
    found.update({function.__name__: 0.0 for function in task.hooks("metric")})
    found.update({judge.reward_name: float(judge.config.weight) for judge in task.plugged_judges()})
    return found


def _decorated(server: Any, mark: str) -> list[Any]:
    names = {
        name
        for cls in type(server).__mro__
        for name, function in vars(cls).items()
        if callable(function) and hasattr(function, mark)
    }
    return [getattr(server, name) for name in sorted(names)]


def _max_turns(config: Any) -> int | None:
    agents = [value for _, value in config if hasattr(value, "max_turns")]
    return next((agent.max_turns for agent in agents if agent.max_turns), None)
