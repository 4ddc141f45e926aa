"""API for workers: join, beat and claim; with a run token: start, heartbeat, log and finish."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from envhub import __version__
from envhub.protocol.base import Request as Body
from envhub.protocol.placing.clusters import ClusterHeads
from envhub.protocol.placing.releases import OLDEST, PROTOCOL
from envhub.protocol.runs import (
    BeatReply,
    BeatRequest,
    Claim,
    ClaimRequest,
    FinishRequest,
    Heartbeat,
    HeartbeatReply,
    JoinReply,
    JoinRequest,
    LogAppend,
    LogAppended,
    RunView,
    WorkersWanted,
)
from envhub.protocol.sandboxes.live import LiveReport
from pydantic import Field, field_validator
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.core import clock
from hub.core.broker_users import admit, worker_url
from hub.core.errors import NotFound
from hub.core.http import answer, parse, parse_query
from hub.core.ids import GivenId, whole_id
from hub.core.queue import broker_options, folder_mark
from hub.core.requests.parameters import query
from hub.runs.authentication import require_run, require_worker
from hub.runs.live_sandboxes import note_sandboxes
from hub.runs.placing.clusters import cluster_of, cluster_token, heads_for
from hub.runs.placing.demand import workers_wanted
from hub.runs.queries import get_worker
from hub.runs.services import (
    append_log,
    claim_run,
    finish_run,
    heartbeat_run,
    join_worker,
    note_worker,
    receive_beat,
    start_run,
)
from hub.runs.wire import run_view

MOST_QUEUES, MOST_SLOTS, MOST_GPUS = 16, 256, 64  # per worker


class Pool(Body):
    """The capacity of each worker in a pool: query parameters of `worker_demand`."""

    slots: dict[str, int]  # in the query as EVAL:2,BUILD:1
    gpus: int = Field(default=0, ge=0, le=MOST_GPUS)
    gpu_memory_mb: int = Field(default=0, ge=0)

    @field_validator("slots", mode="before")
    @classmethod
    def _are_pairs(cls, text: object) -> object:
        """Split the query's text into pairs; pydantic then refuses what is not a number."""
        if not isinstance(text, str):
            return text
        pairs = (part.strip().partition(":") for part in text.split(","))
        return {queue: number for queue, _, number in pairs}

    @field_validator("slots")
    @classmethod
    def _are_possible(cls, slots: dict[str, int]) -> dict[str, int]:
        if len(slots) > MOST_QUEUES or not all(1 <= number <= MOST_SLOTS for number in slots.values()):
            raise ValueError(f"QUEUE:NUMBER,... with numbers from 1 to {MOST_SLOTS}")
        return slots


@extend_schema(request=JoinRequest, responses=JoinReply)
@api_view(["POST"])
def worker_join(request: Request) -> HttpResponse:
    """Register a worker. Safe to repeat."""
    token = require_worker(request)
    worker = join_worker(token=token, request=parse(request, JoinRequest), now=clock.now())
    hub = settings.HUB
    broker_url = worker_url(str(worker.pk), token.digest)
    admit(str(worker.pk), token.digest)
    options = broker_options(hub.data, broker_url, consumer=str(worker.pk))
    cluster = cluster_of(worker)
    return answer(
        JoinReply(
            worker_id=str(worker.pk),
            broker_url=broker_url,
            broker_options=options,
            broker_mark=folder_mark(options),
            beat_seconds=hub.worker_beat_seconds,
            index_url=f"{str(hub.base_url).rstrip('/')}/index",
            release=__version__,
            protocol=PROTOCOL,
            oldest_protocol=OLDEST,
            cluster_token=cluster_token(worker) if cluster and cluster.own else "",
        )
    )


@extend_schema(request=BeatRequest, responses=BeatReply)
@api_view(["POST"])
def worker_beat(request: Request, worker_id: GivenId) -> HttpResponse:
    """Report that a worker is alive and how many more runs it can take.

    The hub sends the runs that fit through the broker. If the worker says that it cannot reach the broker, the response
    contains the runs.
    """
    worker = get_worker(require_worker(request).pk, whole_id(worker_id))
    body = parse(request, BeatRequest)
    if not body.room:  # it consumes nothing, perhaps because the broker has forgotten it
        admit(str(worker.pk), worker.token.digest)
    return answer(receive_beat(worker=worker, beat=body, now=clock.now()))


@extend_schema(parameters=query("slots", "gpus", "gpu_memory_mb"), responses=WorkersWanted)
@api_view(["GET"])
def worker_demand(request: Request) -> HttpResponse:
    """Return how many workers with this token would be useful now, for autoscalers. `workers` may be 0."""
    token = require_worker(request)
    pool = parse_query(request, Pool)
    gpus = [pool.gpu_memory_mb] * pool.gpus
    return answer(workers_wanted(token, pool.slots, gpus=gpus, now=clock.now()))


@extend_schema(responses=ClusterHeads)
@api_view(["GET"])
def cluster_heads(request: Request) -> HttpResponse:
    """List the clusters that a host may join with this worker token, each with Ray's own token."""
    response = answer(ClusterHeads(heads=heads_for(require_worker(request), clock.now())))
    response["Cache-Control"] = "no-store"
    return response


@extend_schema(request=ClaimRequest, responses=Claim)
@api_view(["POST"])
def run_claim(request: Request, run_id: GivenId) -> HttpResponse:
    """Lease a run. Returns 409 `run_not_claimable` if another worker was faster."""
    token = require_worker(request)
    body = parse(request, ClaimRequest)
    worker = get_worker(token.pk, _uuid(body.worker_id))
    now = clock.now()
    note_worker(worker=worker, now=now)
    return answer(claim_run(run_id=whole_id(run_id), worker=worker, now=now, gpus=body.gpus))


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise NotFound("this worker is not registered", code="worker_unknown", hint="join again") from error


@extend_schema(request=None, responses=RunView)
@api_view(["POST"])
def run_start(request: Request, run_id: GivenId) -> HttpResponse:
    """Start the worker's attempt at a run."""
    with transaction.atomic():
        run = start_run(run=require_run(request, run_id), now=clock.now())
    return answer(run_view(run, None))


@extend_schema(request=Heartbeat, responses=HeartbeatReply)
@api_view(["POST"])
def run_heartbeat(request: Request, run_id: GivenId) -> HttpResponse:
    """Renew the lease on a run. The response says whether to stop."""
    body = parse(request, Heartbeat)
    run = require_run(request, run_id)
    told = {name: getattr(body, name) for name in ("progress", "cpu_seconds", "engine_gpus", "extra_gpus")}
    return answer(heartbeat_run(run=run, now=clock.now(), **told))


def tell_of_sandboxes(request: Request, run_id: GivenId) -> HttpResponse:
    """Record the sandboxes inside a run, posted by its worker; the answer names those to end."""
    report = parse(request, LiveReport)
    return answer(note_sandboxes(run=require_run(request, run_id), report=report, now=clock.now()))


def append_piece(request: Request, run_id: GivenId) -> HttpResponse:
    """Append a piece that a worker posts to a run's log; a gap is a 409 `log_gap` with the offset to continue at."""
    body = parse(request, LogAppend)
    with transaction.atomic():
        run = require_run(request, run_id)
        return answer(LogAppended(next_offset=append_log(run=run, offset=body.offset, text=body.text)))


@extend_schema(request=FinishRequest, responses=RunView)
@api_view(["POST"])
def run_finish(request: Request, run_id: GivenId) -> HttpResponse:
    """Report the result of an attempt. Safe to repeat."""
    body = parse(request, FinishRequest)
    with transaction.atomic():
        run = require_run(request, run_id, ended_too=True)
        run = finish_run(run=run, request=body, now=clock.now())
    return answer(run_view(run, None))
