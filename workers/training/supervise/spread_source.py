"""An environment whose rollouts run on several hosts.

A group goes to the host with the fewest rollouts, and is repeated here if that host is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
from envhub.protocol.evals.rollouts import RolloutRecord
from pydantic import ValidationError

from workers.inference.address import EngineAddress
from workers.training.cluster.rollout_wire import RECORDS
from workers.training.coordinator.plan import RolloutRequest
from workers.training.coordinator.sources import Source

TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30)  # rollouts end themselves; `gone` tells of a lost host


@dataclass(eq=False)
class RolloutHost:
    """Another host's rollout server and its current number of rollouts. `gone` is set when the host is lost."""

    name: str
    address: EngineAddress
    rollouts: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class HostLost(Exception):
    """A host did not return its rollouts; the message says why."""


@dataclass
class RolloutHosts:
    """The hosts that answer now, and this host's own number of rollouts."""

    http: aiohttp.ClientSession
    log: Callable[[str], None]
    hosts: dict[int, RolloutHost] = field(default_factory=dict)
    here: int = 0

    def pick(self) -> RolloutHost | None:
        """Return the host with the fewest rollouts; None means this one."""
        host = min(self.hosts.values(), key=lambda one: one.rollouts, default=None)
        return host if host is not None and host.rollouts < self.here else None

    async def ask(self, host: RolloutHost, path: str, request: RolloutRequest) -> list[RolloutRecord]:
        """Get a group of rollouts from a host. Raises HostLost."""
        asking = asyncio.create_task(self._post(host, path, request))
        leaving = asyncio.create_task(host.gone.wait())
        try:
            await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise HostLost("it is gone")
            return asking.result()
        finally:
            asking.cancel()
            leaving.cancel()

    async def _post(self, host: RolloutHost, path: str, request: RolloutRequest) -> list[RolloutRecord]:
        url, headers = f"{host.address.root}/run/{path}", host.address.headers
        try:
            async with self.http.post(url, data=request.model_dump_json(), headers=headers, timeout=TIMEOUT) as answer:
                content = await answer.read()
                if answer.status != 200:
                    raise HostLost(f"HTTP {answer.status}: {content.decode(errors='replace')[:300]}")
                return RECORDS.validate_json(content)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise HostLost(f"{type(error).__name__}: {error}") from error
        except ValidationError as error:
            raise HostLost(f"its answer is no list of rollouts: {str(error)[:300]}") from error


class SpreadSource(Source):
    """A source that also uses other hosts for rollouts. `path` is its name there."""

    def __init__(self, own: Source, path: str, hosts: RolloutHosts) -> None:
        super().__init__(own.label, own.runner, own.shaping, own.model, own.timeout_s, own.described)
        self._path, self._hosts = path, hosts

    async def run(self, request: RolloutRequest) -> list[RolloutRecord]:
        """Run a group here or elsewhere; return a record for each rollout, whatever happened. Raises RunnerFatal."""
        host = self._hosts.pick()
        if host is not None:
            host.rollouts += request.n
            try:
                return await self._hosts.ask(host, self._path, request)
            except HostLost as error:
                self._hosts.log(
                    f"rollouts of group {request.name} are begun again here: {host.name} lost them ({error})"
                )
            finally:
                host.rollouts -= request.n
        self._hosts.here += request.n
        try:
            return await super().run(request)
        finally:
            self._hosts.here -= request.n
