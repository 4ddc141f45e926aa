"""Simulated workers: real claims, heartbeats, uploads and segments, by the worker's own client; no boxes, no model."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import httpx
from envhub.packaging.segments import SEGMENT_ROLLOUTS
from envhub.protocol.evals.evaluations import SegmentReply, SegmentRequest
from envhub.protocol.runs import BeatRequest, Claim, FinishRequest, JoinRequest, RunState

from tests.bench.load.rollouts import rollouts
from tests.bench.load.timings import Timings
from workers.rollouts.collector import Collector
from workers.runs.artifacts import Artifacts
from workers.runs.hub import HubClient, RunClient
from workers.runs.lease import hold

TICK_S, BEAT_S = 0.1, 1.0


@dataclass
class Load:
    """`workers` of them, together `rate` rollouts a second (0: as fast as they can), for `seconds`."""

    url: str
    token: str
    workers: int
    rate: float
    seconds: float
    folder: Path
    timings: Timings = field(default_factory=Timings)
    sent: Counter[str] = field(default_factory=Counter)  # of each evaluation
    bytes: int = 0
    lasted: float = 0.0

    async def run(self) -> None:
        """Until the time is over and the hub has everything."""
        began = time.monotonic()
        await asyncio.gather(*(self._work(number) for number in range(self.workers)))
        self.lasted = time.monotonic() - began

    async def _work(self, number: int) -> None:
        async with HubClient(self.url, self.token, patience_s=60) as hub:
            self._watch(hub.connection.http)
            claim = await self._claim(hub, number)
            run = hub.run(claim)
            await run.start()
            async with hold(run, claim, heartbeat_seconds=BEAT_S):
                await self._send(run, str(claim.payload["evaluation_id"]), number)
            await run.finish(FinishRequest(state=RunState.SUCCEEDED))

    async def _claim(self, hub: HubClient, number: int) -> Claim:
        name = f"simulated-{number}"
        asked = JoinRequest(name=name, hostname=name, queues=("eval",), slots={"eval": 1}, sandbox="process")
        joined = await hub.join(asked)
        while True:
            reply = await hub.beat(joined.worker_id, BeatRequest(room={"eval": 1}, answer=True))
            for task in reply.tasks:
                return await hub.claim(task.run_id, joined.worker_id)
            await asyncio.sleep(0.2)

    async def _send(self, run: RunClient, evaluation_id: str, number: int) -> None:
        artifacts = Artifacts(run, self.folder / f"blobs-{number}")
        path = f"/evaluations/{evaluation_id}/segments"

        async def post(request: SegmentRequest) -> SegmentReply:
            self.bytes += request.size
            return await run.post(path, request, SegmentReply)

        source, ends = rollouts(number), time.monotonic() + self.seconds
        each = self.rate / self.workers
        async with Collector(artifacts.upload_bytes, post) as collector:
            began = time.monotonic()
            while (now := time.monotonic()) < ends:
                due = int((now - began) * each) - self.sent[evaluation_id] if self.rate else SEGMENT_ROLLOUTS
                records = list(islice(source, due))
                await collector.add(records)
                self.sent[evaluation_id] += len(records)
                if self.rate:
                    await asyncio.sleep(TICK_S)
                else:
                    await collector.flush()

    def _watch(self, http: httpx.AsyncClient) -> None:
        async def note_start(request: httpx.Request) -> None:
            request.extensions["began"] = time.perf_counter()

        async def note_end(response: httpx.Response) -> None:
            await response.aread()
            name = _name_of(response.request)
            self.timings.seconds[name].append(time.perf_counter() - response.request.extensions["began"])
            if response.status_code >= 400:
                self.timings.failures[f"{name}: {response.status_code} {response.text[:100]}"] += 1

        http.event_hooks = {"request": [note_start], "response": [note_end]}


def _name_of(request: httpx.Request) -> str:
    path = request.url.path
    if not path.startswith("/api/"):
        return f"{request.method} to S3"
    return f"{request.method} .../{path.rpartition('/')[2]}"


@dataclass
class Reader:
    """Somebody who reads pages meanwhile, one after the other."""

    url: str
    paths: dict[str, str]
    timings: Timings = field(default_factory=Timings)

    async def run(self, pause_s: float = 0.5) -> None:
        """Until it is cancelled."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=60) as http:
            while True:
                for name, path in self.paths.items():
                    with self.timings.taken(name):
                        (await http.get(path)).raise_for_status()
                    await asyncio.sleep(pause_s)
