"""Serve runs: executed inside the worker's main process, beside its slots, since all they do is wait and forward."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from envhub import errors

from workers.inference.serving import run_serve
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment

logger = logging.getLogger(__name__)
QUEUE = "serve"


class ServeRuns:
    """At most `settings.serve_runs` at once."""

    def __init__(self, settings: WorkerEnvironment, hub: HubClient) -> None:
        self._settings = settings
        self._hub = hub
        self._stop = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._since: dict[str, float] = {}

    @property
    def oldest(self) -> float | None:
        """When the oldest one began, seconds since the epoch."""
        return min(self._since.values(), default=None)

    @property
    def has_room(self) -> bool:
        """Whether one more could run."""
        return len(self._running) < self._settings.serve_runs

    def take(self, run_ids: Iterable[str], worker_id: str) -> None:
        """Claim and run those that are new, as far as there is room."""
        for run_id in run_ids:
            if run_id not in self._running and self.has_room:
                self._since[run_id] = time.time()
                self._running[run_id] = asyncio.create_task(self._serve(run_id, worker_id))

    async def stop(self) -> None:
        """Give all of them back to the queue."""
        self._stop.set()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _serve(self, run_id: str, worker_id: str) -> None:
        try:
            # A client of its own: the supervisor's has no patience, a serve run must outlive a hub restart.
            token = self._settings.token.get_secret_value()
            async with HubClient(self._hub.url, token, patience_s=self._settings.hub_patience_s) as hub:
                claim = await hub.claim(run_id, worker_id)
                await execute(hub, claim, run_serve, self._settings, self._stop)
        except errors.Conflict:
            pass  # another worker was faster
        except errors.EnvhubError as error:
            logger.warning("serve run %s: %s", run_id, error)
        finally:
            self._running.pop(run_id, None)
            self._since.pop(run_id, None)
