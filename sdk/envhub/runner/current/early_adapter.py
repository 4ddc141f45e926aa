"""Drives tasksets of verifiers 0.2.x: one episode for each example, whose rollouts each have their own base URL.

That generation has one harness per environment instead of agents, and rewards that compare a group's rollouts.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..adapters import NoSuchExample, Policy, Row
from ..arguments import merged
from ..attempts import CURRENT, Attempt, Result
from ..legacy.describe import fields_schema
from ..row_images import images, of_task
from .adapter import KEY_VARIABLE, CurrentAdapter, _Scoring, task_row
from .describe import size
from .early_results import to_result
from .loading import (
    HARNESS_MODULE,
    brings_a_harness,
    exports_taskset,
    install_harness,
    sandboxes_are_here,
    tasks_want_a_sandbox,
)

if TYPE_CHECKING:
    from ..adapters import Adapter

__all__ = ["exports_taskset", "is_available", "load"]


def is_available() -> bool:
    """Return whether the installed verifiers has the tasksets of 0.2.x."""
    try:
        here = importlib.util.find_spec("verifiers.v1.loaders") is not None
        return here and importlib.util.find_spec("verifiers.v1.episode") is not None
    except ModuleNotFoundError:
        return False


def load(module: Any, command: Mapping[str, Any]) -> Adapter:
    """Make the environment of a module that exports a taskset."""
    library = importlib.import_module("verifiers.v1")
    name = str(command["module"])
    config = library.EnvConfig.model_validate(config_data(name, command))
    if sandboxes_are_here() and _wants_a_sandbox(name, library.load_taskset(config.taskset)):
        config = library.EnvConfig.model_validate(config_data(name, command, runtime="prime"))
    env = library.Environment(config)
    return EarlyAdapter(env, module, env.harness.config.id == HARNESS_MODULE)


def _wants_a_sandbox(name: str, taskset: Any) -> bool:
    """Return whether the tasks need a sandbox. Checked before making the environment, which refuses other runtimes."""
    library = importlib.import_module("verifiers.v1")
    return tasks_want_a_sandbox(library.task_type(name), type(taskset), taskset.load)


def config_data(name: str, command: Mapping[str, Any], runtime: str = "subprocess") -> dict[str, Any]:
    """Return the environment's config.

    env_args: the environment's own keys; others go to the taskset. harness: its fields, and limits such as
    max_turns, which go to the environment.
    """
    library = importlib.import_module("verifiers.v1")
    fields = library.EnvConfig.model_fields
    arguments = dict(command.get("env_args") or {})
    data: dict[str, Any] = {key: arguments.pop(key) for key in list(arguments) if key in fields}
    table = merged(merged(data.pop("taskset", None) or {}, arguments), command.get("taskset") or {})
    data["taskset"] = {**table, "id": name}
    asked = merged(data.pop("harness", None) or {}, command.get("harness") or {})
    data |= {key: asked.pop(key) for key in list(asked) if key in fields}
    if asked.get("id") is None:
        loaders = importlib.import_module("verifiers.v1.loaders")
        asked["id"] = loaders.default_harness_id(name) if brings_a_harness(name, loaders) else HARNESS_MODULE
    if asked["id"] == HARNESS_MODULE:
        install_harness()
    data["harness"] = {"runtime": {"type": runtime}, **asked}
    return data


class EarlyAdapter(CurrentAdapter):
    """One loaded environment of 0.2.x."""

    @property
    def env_class(self) -> str:
        """The taskset's class."""
        return type(self.env.taskset).__name__

    @property
    def requires_group(self) -> bool:  # type: ignore[override]
        """Whether its tasks compare the rollouts of a group."""
        return bool(_decorated(self._task_type, "group_reward"))

    def prepare(self, supervise: Callable[[Attempt, Awaitable[Any]], Awaitable[Any]]) -> None:
        """Wrap nothing: this generation's tool servers are separate programs."""

    def task(self, index: int) -> Any | None:
        """Task number `index`, reading no further than that; None past the end."""
        if self._source is None:
            self._source = iter(self.env.taskset.load())
        missing = index + 1 - len(self._tasks)
        if missing > 0:
            self._tasks.extend(itertools.islice(self._source, missing))
        return self._tasks[index] if 0 <= index < len(self._tasks) else None

    def row(self, split: str, index: int) -> Row:
        """Return one example (this generation has no splits). Raises NoSuchExample."""
        task = self.task(index)
        if task is None:
            raise NoSuchExample(f"the taskset has no task {index}")
        return Row(data=task_row(task), source=task, requires_group=self.requires_group)

    def describe(self, rows: int) -> dict[str, Any]:
        """Return the body of the `described` frame."""
        first = self.task(0)
        found = [task_row(task) for index in range(rows) if (task := self.task(index)) is not None]
        split: dict[str, Any] = {"size": size(self), "rows": found}
        split["images"] = images(map(self.task, range(self.tasks_read)), of_task)
        return {
            "env_class": self.env_class,
            "splits": {"train": split, "eval": {**split, "rows_of": "train"}},
            "system_prompt": getattr(getattr(first, "data", None), "system_prompt", None),
            "tools": self._tools(),
            "rewards": self._rewards(first),
            "message_type": "chat",
            "max_turns": self.env.config.max_turns,
            "args_schema": {"taskset": {"annotation": "table", "fields": fields_schema(type(self.env.taskset.config))}},
        }

    async def run(self, row: Row, attempts: list[Attempt], policy: Policy, state_columns: list[str]) -> list[Result]:
        """Run the rollouts of one example in one episode."""
        await self._serve()
        library = importlib.import_module("verifiers.v1")
        os.environ[KEY_VARIABLE] = policy.api_key
        contexts = [self._context(library, attempt, policy) for attempt in attempts]
        task = _noting_score(row.source, attempts)
        episode = self.env.episode(task, contexts[0], len(attempts))
        for rollout, context in zip(episode.rollouts, contexts, strict=True):
            rollout.ctx = context
        token = CURRENT.set(attempts[0])
        try:
            traces = await episode.run()
        finally:
            CURRENT.reset(token)
            for context in contexts:
                await context.client.close()
        return [to_result(attempt, trace, state_columns) for attempt, trace in zip(attempts, traces, strict=True)]

    def _context(self, library: Any, attempt: Attempt, policy: Policy) -> Any:
        config = importlib.import_module("verifiers.v1.clients.config")
        client = library.resolve_client(config.EvalClientConfig(base_url=attempt.base_url, api_key_var=KEY_VARIABLE))
        sampling = library.SamplingConfig.model_validate(attempt.sampling)
        return library.ModelContext(model=policy.model, client=client, sampling=sampling)

    @property
    def _task_type(self) -> Any:
        return importlib.import_module("verifiers.v1").task_type(self.env.taskset.config.id)

    def _rewards(self, task: Any) -> dict[str, float]:
        found = {
            name: float(getattr(function, "_vf_weight", 1.0))
            for mark in ("reward", "group_reward")
            for name, function in _decorated(self._task_type, mark).items()
        }
        found |= dict.fromkeys(_decorated(self._task_type, "metric"), 0.0)
        for judge in task.plugged_judges() if task is not None else ():
            name = getattr(judge, "reward_name", type(judge).__name__)
            found[str(name)] = float(getattr(judge.config, "weight", 1.0))
        return found

    def _tools(self) -> list[dict[str, Any]]:
        """List the tools of the taskset's servers and of its tasks', with names and docstrings."""
        found = []
        for server in (*type(self.env.taskset).tools, *self._task_type.tools):
            for name, function in _decorated(server, "tool").items():
                found.append({"name": name, "description": (function.__doc__ or "").strip()})
        return found


def _decorated(owner: Any, mark: str) -> dict[str, Any]:
    """Return the methods of a class that have a decorator of the library, by name."""
    found: dict[str, Any] = {}
    for cls in reversed(owner.__mro__):
        found |= {name: value for name, value in vars(cls).items() if callable(value) and hasattr(value, mark)}
    return dict(sorted(found.items()))


def _noting_score(task: Any, attempts: list[Attempt]) -> Any:
    """Copy the task so that it notes when it is scored: failures and stalls there are the verifier's."""
    noted = copy.copy(task)
    for name in ("score", "score_group"):
        _note(noted, name, attempts, f"the scoring of {type(task).__name__}")
    return noted


def _note(task: Any, name: str, attempts: list[Attempt], what: str) -> None:
    original = getattr(task, name)

    async def scored(*arguments: Any, **options: Any) -> Any:
        with _Scoring(attempts[0], what):
            return await original(*arguments, **options)

    setattr(task, name, scored)
