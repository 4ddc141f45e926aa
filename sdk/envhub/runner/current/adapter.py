"""Drives an environment of verifiers 0.3.1-0.4.x: one slot for each rollout, each with its own base URL."""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from ..adapters import NoSuchExample, Policy, Row
from ..attempts import CURRENT, Attempt, Result
from ..jsonable import to_json
from . import describe, tools
from .results import to_result

KEY_VARIABLE = "ENVHUB_POLICY_KEY"


class CurrentAdapter:
    """One loaded environment."""

    generation = "current"
    requires_group = False
    provides_advantages = False

    def __init__(self, env: Any, module: Any, in_process: bool) -> None:
        self.env = env
        self.module = module
        self.in_process_harness = in_process
        self._tasks: list[Any] = []
        self._source: Iterator[Any] | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._stop = asyncio.Event()
        self._lock = asyncio.Lock()

    @property
    def env_class(self) -> str:
        """The taskset's class, or for other than plain tasksets the environment's."""
        return type(self.env).__name__ if self.several_agents else type(self.env.taskset).__name__

    @property
    def several_agents(self) -> bool:
        """Whether an episode may have several agents."""
        return type(self.env).__name__ != "SingleAgentEnv"

    def prepare(self, supervise: Callable[[Attempt, Awaitable[Any]], Awaitable[Any]]) -> None:
        """Share one connection pool between the rollouts' clients, and serve toolsets in this process."""
        _share_clients()
        _note_finalize(self.env)
        if self.in_process_harness:
            tools.install()

    def describe(self, rows: int) -> dict[str, Any]:
        """Return the body of the `described` frame."""
        return describe.describe(self, task_row, rows)

    def task(self, index: int) -> Any | None:
        """Return task number `index`, reading no further than that; None past the end."""
        if self._source is None:
            self._source = iter(self.env.taskset)
        missing = index + 1 - len(self._tasks)
        if missing > 0:
            self._tasks.extend(itertools.islice(self._source, missing))
        return self._tasks[index] if 0 <= index < len(self._tasks) else None

    @property
    def tasks_read(self) -> int:
        """The number of tasks read so far."""
        return len(self._tasks)

    def row(self, split: str, index: int) -> Row:
        """Return one example (this generation has no splits). Raises NoSuchExample."""
        task = self.task(index)
        if task is None:
            raise NoSuchExample(f"the taskset has no task {index}")
        return Row(data=task_row(task), source=task, requires_group=False)

    async def run(self, row: Row, attempts: list[Attempt], policy: Policy, state_columns: list[str]) -> list[Result]:
        """Run one rollout as one slot of the library."""
        await self._serve()
        (attempt,) = attempts
        library = importlib.import_module("verifiers.v1")
        os.environ[KEY_VARIABLE] = policy.api_key
        client = library.EvalClientConfig(base_url=attempt.base_url, api_key_var=KEY_VARIABLE)
        context = library.ModelContext(
            model=policy.model, client=client, sampling=library.SamplingConfig.model_validate(attempt.sampling)
        )
        token = CURRENT.set(attempt)
        try:
            _note_scoring(type(row.source))
            (slot,) = self.env.slots(row.source, 1)
            attempt.state = slot
            episode = await self.env.run_slot(slot, context)
        finally:
            CURRENT.reset(token)
        return [to_result(attempt, episode, state_columns, several=self.several_agents)]

    async def _serve(self) -> None:
        """Enter the library's serving context in a separate task, since the task that enters it must also leave it."""
        async with self._lock:
            if self._ready is None:
                self._ready = asyncio.get_running_loop().create_future()
                self._serving = asyncio.create_task(self._hold_serving(self._ready))
        await asyncio.shield(self._ready)

    async def _hold_serving(self, ready: asyncio.Future[None]) -> None:
        try:
            async with self.env.serving():
                ready.set_result(None)
                await self._stop.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def teardown(self) -> None:
        """Leave the serving context."""
        self._stop.set()
        if self._serving is not None:
            await self._serving
        if self.in_process_harness:
            from .harness import close_session

            await close_session()


def task_row(task: Any) -> dict[str, Any]:
    """Return a task's data without the framework's own fields that have their default values."""
    base = importlib.import_module("verifiers.v1").TaskData
    data: dict[str, Any] = to_json(task.data.model_dump(mode="json", exclude_none=True))
    silent = to_json(base.model_construct().model_dump(mode="json", exclude_none=True, warnings=False))
    return {key: value for key, value in data.items() if key not in silent or silent[key] != value}


def _note_scoring(kind: type[Any]) -> None:
    """Make tasks of a class, and their copies, note their scoring: failures and stalls there are the verifier's."""
    if "_envhub_notes" in vars(kind):
        return
    original = kind.score

    @functools.wraps(original)
    async def score(self: Any, *args: Any, **kwargs: Any) -> Any:
        attempt = CURRENT.get()
        if attempt is None or attempt.scoring or getattr(self, "scoring_deferred", False):
            return await original(self, *args, **kwargs)
        with _Scoring(attempt, f"the scoring of {type(self).__name__}"):
            return await original(self, *args, **kwargs)

    kind.score = score
    kind._envhub_notes = True


class _Scoring:
    """Marks a try as being scored. An exception leaves the mark, which tells the failure's kind."""

    def __init__(self, attempt: Attempt, name: str) -> None:
        self._attempt, self._name = attempt, name

    def __enter__(self) -> None:
        self._attempt.scoring, self._attempt.scoring_function = True, self._name

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # an environment with several agents goes on with the next one
            self._attempt.scoring, self._attempt.scoring_function = False, ""


def _note_finalize(env: Any) -> None:
    """Treat judgement across traces (`Environment.finalize`) as scoring too."""
    original = env.finalize

    @functools.wraps(original)
    async def finalize(*args: Any, **kwargs: Any) -> Any:
        attempt = CURRENT.get()
        if attempt is None:
            return await original(*args, **kwargs)
        with _Scoring(attempt, f"{type(env).__name__}.finalize"):
            return await original(*args, **kwargs)

    env.finalize = finalize


def _share_clients() -> None:
    """Make the library's clients share one connection pool.

    The library keeps a client with its own pool for each distinct base URL and never releases it, so this hands out
    shallow copies of one client.
    """
    server = importlib.import_module("verifiers.v1.interception.server").InterceptionServer
    if getattr(server, "_envhub_shared", False):
        return
    original = server._client
    shared: dict[int, Any] = {}

    def client(self: Any, config: Any) -> Any:
        if config.api_key_var != KEY_VARIABLE:
            return original(self, config)
        base = shared.get(id(self))
        if base is None:
            base = shared[id(self)] = original(self, config)
        own = copy.copy(base)
        own.base_url = config.base_url
        return own

    server._client = client
    server._envhub_shared = True
