"""A fleet of simulated workers: rows in the database, and threads that call what the API calls for them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import connection
from django.utils import timezone
from envhub.protocol.runs import BeatRequest, Claim, FinishRequest, RunKind, RunState

from hub.accounts.models import Owner
from hub.runs.errors import NotClaimable
from hub.runs.models import Lane, Run, Worker
from hub.runs.queries import get_worker
from hub.runs.services import claim_run, finish_run, heartbeat_run, receive_beat, start_run
from tests.factories.accounts import make_user
from tests.factories.runs import make_worker_token

Answer = TypeVar("Answer")
SLOTS = 2
SUCCEEDED = FinishRequest(state=RunState.SUCCEEDED)


@dataclass
class Fleet:
    """`workers` of them, of one token. `timings`: seconds of each call, by its name; `claims`: of each run."""

    workers: int
    owners: int = 20
    timings: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    claims: Counter[str] = field(default_factory=Counter)
    errors: list[Exception] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def join(self) -> None:
        """Make the rows."""
        self.secret, self.token = make_worker_token()
        self.users = [make_user() for _ in range(self.owners)]
        now = timezone.now()
        self.rows = Worker.objects.bulk_create(
            Worker(name=f"w{n}", hostname="h", queues=["eval"], slots={"eval": SLOTS}, token=self.token, seen_at=now)
            for n in range(self.workers)
        )
        Lane.objects.bulk_create(Lane(worker=row, queue="eval", room=0) for row in self.rows)

    def submit(self, runs: int) -> None:
        """Queue runs, of all owners in turn."""
        Run.objects.bulk_create(self._run(n) for n in range(runs))

    def ended(self, runs: int) -> None:
        """History: runs that ended."""
        rows = (self._run(n, state=RunState.SUCCEEDED.value, attempt=1) for n in range(runs))
        Run.objects.bulk_create(rows, batch_size=5000)

    def _run(self, number: int, **fields: Any) -> Run:
        owner: Owner = self.users[number % len(self.users)].owner
        by = self.users[number % len(self.users)]
        return Run(kind=RunKind.EVAL.value, queue="eval", owner=owner, created_by=by, subject="x", **fields)

    def work(self, threads: int, *, until: Callable[[], bool]) -> float:
        """Each thread speaks for a share of the workers until all is done; gives the seconds."""
        began = time.perf_counter()
        shares = [self.rows[n::threads] for n in range(threads)]
        running = [threading.Thread(target=self._speak, args=(share, until)) for share in shares]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return time.perf_counter() - began

    def _speak(self, rows: list[Worker], until: Callable[[], bool]) -> None:
        try:
            held: dict[Any, list[Claim]] = defaultdict(list)
            order = random.Random(len(rows))
            while not until():
                busy = [row for row in rows if held[row.pk]] if order.random() < 0.5 else []
                self.turn(order.choice(busy or rows), held)
        except Exception as error:  # noqa: BLE001  told by whoever looks
            self.errors.append(error)
        finally:
            connection.close()

    def turn(self, row: Worker, held: dict[Any, list[Claim]]) -> None:
        """A worker beats, takes what comes, and does a heartbeat and a bit of work for each of its runs."""
        mine = held[row.pk]
        beat = BeatRequest(room={"eval": SLOTS - len(mine)}, answer=True)
        worker = get_worker(self.token.pk, row.pk)
        reply = self._timed("beat", receive_beat, worker=worker, beat=beat, now=timezone.now())
        for task in reply.tasks:
            claim = self._timed("claim", self._claim, run_id=task.run_id, row=row)
            if claim is not None:
                self.claims[claim.run_id] += 1
                mine.append(claim)
                self._timed("start", start_run, run=self._get(claim.run_id), now=timezone.now())
        for claim in tuple(mine):
            run = self._get(claim.run_id)
            self._timed("heartbeat", heartbeat_run, run=run, progress=None, now=timezone.now())
            if random.random() < 0.5:
                self._timed("finish", finish_run, run=run, request=SUCCEEDED, now=timezone.now())
                mine.remove(claim)

    def _claim(self, run_id: str, row: Worker) -> Claim | None:
        try:
            return claim_run(run_id=run_id, worker=get_worker(self.token.pk, row.pk), now=timezone.now())
        except NotClaimable:
            return None

    def _get(self, run_id: str) -> Run:
        return Run.objects.select_related("owner").get(pk=run_id)

    def _timed(self, name: str, call: Callable[..., Answer], **arguments: Any) -> Answer:
        """The call's answer; its seconds are noted."""
        began = time.perf_counter()
        answer = call(**arguments)
        with self._lock:
            self.timings[name].append(time.perf_counter() - began)
        return answer
