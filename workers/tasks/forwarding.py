"""Executes runs that only wait and forward inside the host process, so that they take no child of the pool."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from envhub import errors
from envhub.client.telemetry.json_logs import note

from workers.inference.serving import run_serve
from workers.runs.execution import Body, execute
from workers.runs.hub import HubClient
from workers.sandboxes.run import run_sandbox
from workers.settings import WorkerEnvironment

logger = logging.getLogger(__name__)
HEARTBEAT_FACTOR = 10  # of their heartbeat interval to other runs': there may be hundreds, and little happens


class ForwardingRuns:
    """The runs of one queue, limited in number. free_gpus: returns the MB of each GPU that their engines may get."""

    def __init__(
        self,
        queue: str,
        body: Body,
        most: int,
        settings: WorkerEnvironment,
        hub: HubClient,
        free_gpus: Callable[[], tuple[int, ...]] = tuple,
    ) -> None:
        self.queue = queue
        self._body = body
        self._most = most
        self._settings = settings
        self._hub = hub
        self._free_gpus = free_gpus
        self._stop = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._hurry: dict[str, asyncio.Event] = {}
        self._since: dict[str, float] = {}

    @property
    def oldest(self) -> float | None:
        """When the oldest run began, in seconds since the epoch."""
        return min(self._since.values(), default=None)

    @property
    def any_run(self) -> bool:
        """Whether any run is active."""
        return bool(self._running)

    @property
    def room(self) -> int:
        """How many more runs could start; none once it stops."""
        return 0 if self._stop.is_set() else max(0, self._most - len(self._running))

    def take(self, run_ids: Iterable[str], worker_id: str) -> None:
        """Claim and execute new runs while there is room."""
        for run_id in run_ids:
            if run_id not in self._running and self.room:
                self._since[run_id] = time.time()
                self._hurry[run_id] = asyncio.Event()
                self._running[run_id] = asyncio.create_task(self._run(run_id, worker_id))

    def hurry(self, run_ids: Iterable[str]) -> None:
        """Make those of the runs that are active here send a heartbeat now, to learn whether they are cancelled."""
        for run_id in run_ids:
            if run_id in self._hurry:
                self._hurry[run_id].set()

    async def stop(self) -> None:
        """Return all runs to the queue."""
        self._stop.set()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, run_id: str, worker_id: str) -> None:
        note(run_id=run_id)
        try:
            # Use a separate client: the host process's has no patience, but these runs must survive a restart of the
            # hub.
            token = self._settings.token.get_secret_value()
            async with HubClient(self._hub.url, token, patience_s=self._settings.hub_patience_s) as hub:
                claim = await hub.claim(run_id, worker_id, self._free_gpus())
                beat_s = HEARTBEAT_FACTOR * self._settings.heartbeat_seconds
                hurry = self._hurry[run_id]
                await execute(hub, claim, self._body, self._settings, self._stop, hurry=hurry, beat_s=beat_s)
        except errors.Conflict:
            pass  # another worker was faster
        except errors.EnvhubError as error:
            logger.warning("%s run %s: %s", self.queue, run_id, error)
        finally:
            self._running.pop(run_id, None)
            self._hurry.pop(run_id, None)
            self._since.pop(run_id, None)


def forwarding_runs(
    settings: WorkerEnvironment, hub: HubClient, free_gpus: Callable[[], tuple[int, ...]]
) -> tuple[ForwardingRuns, ...]:
    """Return the kinds of runs that this worker executes outside its slots; kinds without room are left out."""
    kinds = (
        ForwardingRuns("serve", run_serve, settings.serve_runs, settings, hub, free_gpus),
        ForwardingRuns("sandbox", run_sandbox, settings.sandbox_runs, settings, hub),
    )
    return tuple(kind for kind in kinds if kind.room)
