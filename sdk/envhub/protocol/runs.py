"""Wire types of runs: their states and the worker's claim, heartbeat, log and finish calls."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from envhub.protocol.base import Count, Request, Response, Size, Slug, StoredObject, Whole
from envhub.protocol.placing.clusters import ClusterFacts
from envhub.protocol.placing.gpus import Gpu, GpuNeed, GpuUse
from envhub.protocol.traces import Traceparent

MOST_LOGGED = 4_000_000  # characters in one piece of the log
RUN_TASK = "workers.run"  # the Celery task that executes a run; its only argument is the run's id


class RunKind(StrEnum):
    """What a run does."""

    BUILD = "build"
    EVAL = "eval"
    TRAIN = "train"
    SERVE = "serve"
    SANDBOX = "sandbox"
    IMAGE = "image"


class RunState(StrEnum):
    """queued -> leased -> running -> succeeded | failed | cancelled; an expired lease returns to queued."""

    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether the run has ended for good."""
        return self in {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED}


class FailureKind(StrEnum):
    """The cause of a failure. Infrastructure failures are retried and never scored 0."""

    POLICY = "policy"
    ENVIRONMENT = "environment"
    VERIFIER = "verifier"
    JUDGE = "judge"
    INFRASTRUCTURE = "infrastructure"
    LIMIT = "limit"
    CANCELLED = "cancelled"


class Failure(Response):
    """Why something failed and what to do about it, in words for the user."""

    kind: FailureKind
    code: str
    message: str
    hint: str = ""


class RunView(Response):
    """A run."""

    id: str
    kind: RunKind
    state: RunState
    owner: Slug
    created_by: str
    subject: str  # what the run works on, for display: "alice/reverse-text@0.1.0"
    subject_url: str
    queue: str
    attempt: int
    waiting_for: str | None = None  # only while queued: "2 runs ahead", "no eval worker is online"
    progress: Progress | None = None
    failure: Failure | None = None
    cancel_requested: bool = False
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cpu_seconds: float = 0.0  # of all attempts, as reported by their workers
    gpus: int = 0  # that the newest attempt holds, with extra engines while they are there, or that its engine uses
    gpu_seconds: float = 0.0  # of the newest attempt
    trace_id: str | None = None
    trace_url: str | None = None  # link to the operator's trace viewer


class EngineCounts(Response):
    """Engines of a worker or of a training run, by state."""

    starting: Count = 0
    serving: Count = 0
    idle: Count = 0  # loaded, and used by no run
    behind: Count = 0  # weight versions by which the slowest serving engine of a training run is behind the newest


class Progress(Response):
    """The progress of a run, in its own unit ("rollouts", "steps", "stages")."""

    done: Whole
    total: Whole
    unit: str
    note: str = ""
    left_s: float | None = None  # estimated seconds from now, by the worker
    engines: EngineCounts | None = None  # of a training run


class WorkerFacts(Response):
    """What a worker reports about its machine.

    Used for its page, to explain why runs wait, and to determine what can be trained and served.
    """

    cpus: Count = 0
    memory_mb: Count = 0
    platform: str = ""
    engines: tuple[str, ...] = ("torch",)
    wandb: bool = False
    load_limit_s: float | None = None  # time allowed for an environment to load
    gpus: tuple[Gpu, ...] = ()
    version: str = ""  # release of the worker; empty if it does not report one
    cluster: ClusterFacts | None = None  # the Ray cluster for training runs over several hosts
    abilities: tuple[str, ...] = ()  # names from envhub.protocol.placing.abilities


class JoinRequest(Request):
    """Register a worker by its worker token. Sent at startup and again after a lost connection."""

    name: str
    hostname: str
    queues: tuple[str, ...]
    slots: dict[str, Count]  # queue -> runs at a time
    sandbox: str  # "bwrap", "podman,bwrap", "process"
    facts: WorkerFacts = WorkerFacts()


class WorkerView(Response):
    """A worker, as administrators see it. Revoking it ends its token and cuts off every worker that joined with it."""

    id: str
    name: str
    hostname: str
    online: bool  # was heard from recently, and its token is valid
    revoked: bool
    queues: tuple[str, ...]
    closed: tuple[str, ...] = ()  # queues from which it takes no runs now: drained, or its broker is away
    drained_at: datetime | None = None  # when an administrator drained it
    free_gpus: tuple[int, ...] = ()  # free MB of each GPU that no run holds
    busy_gpus: tuple[int, ...] = ()  # MB of each that one holds
    gpu_use: tuple[GpuUse, ...] = ()  # of each GPU, as last measured
    gpu_history: tuple[tuple[int, int], ...] = ()  # (Unix time, mean percent of its GPUs), a minute or more apart
    slots: dict[str, int]
    sandbox: str
    facts: WorkerFacts = WorkerFacts()
    token: str  # name of its token
    owners: tuple[Slug, ...] = ()  # owners whose runs it may take; empty: all
    running: int = 0  # runs that it holds
    joined_at: datetime
    seen_at: datetime


class WorkerDetail(WorkerView):
    """A worker with the runs that it holds, oldest first (at most 1,000)."""

    runs: tuple[RunView, ...] = ()


class WorkerChange(Request):
    """Changes that an administrator can make to a worker."""

    drained: bool  # True: it takes nothing new and finishes what it holds


class WorkerTokenRequest(Request):
    """Create a worker token. Without queues or owners, it is valid for all of them."""

    name: str = Field(min_length=1, max_length=100)
    queues: tuple[str, ...] = ()
    owners: tuple[Slug, ...] = ()


class WorkerTokenCreated(Response):
    """A new worker token. Only this response contains it."""

    token: str
    name: str


class JoinReply(Response):
    """What a worker needs to start: its id, and the broker that delivers its runs (see own_queue)."""

    worker_id: str
    broker_url: str
    broker_options: StoredObject = Field(default_factory=dict)
    broker_mark: str = ""  # for a broker that is a folder: a file in it that identifies it
    beat_seconds: float
    index_url: str  # root URL of the owners' indexes: <index_url>/<owner>/simple/
    release: str = ""  # release of the hub
    protocol: int = 1  # the protocol version it uses, then the oldest it accepts: envhub.protocol.placing.releases
    oldest_protocol: int = 1
    cluster_token: str = ""  # token of the cluster whose head this worker starts; derived by the hub, never stored


def own_queue(queue: str, worker_id: str) -> str:
    """Return the broker queue for one worker's runs of a queue; no other worker consumes it."""
    return f"{queue}.{worker_id}"


class BeatRequest(Request):
    """Reports that a worker is alive and how many more runs it can take. The hub sends what fits through the broker."""

    room: dict[str, Count]  # by queue; omits queues that it does not consume now (draining, or the broker is away)
    free_gpus: tuple[Count, ...] = Field(default=(), max_length=64)  # free MB of each GPU that none of its runs holds
    busy_gpus: tuple[Count, ...] = Field(default=(), max_length=64)  # MB of each GPU that a run holds
    engines: EngineCounts = EngineCounts()  # that its runs share; a training run reports its own
    # of each GPU of the worker, as last measured: () if its driver does not answer, None if the worker does not say
    gpu_use: tuple[GpuUse, ...] | None = Field(default=None, max_length=64)
    refused: tuple[str, ...] = Field(default=(), max_length=1000)  # runs that arrived and found no room
    answer: bool = False  # the broker is out of reach, so send runs in the reply


class RunTask(Response):
    """Delivers a run to a worker: the content of a Celery task, or part of the reply to a beat. Contains no secrets."""

    run_id: str
    queue: str
    task_id: str  # RUN.ATTEMPT.NUMBER
    label: str  # task name shown by Celery: "run.eval"
    gpus: GpuNeed = GpuNeed()


class BeatReply(Response):
    """The reply to a beat.

    sent: number of runs on their way to the worker. tasks: those of them that do not come through a broker. cancelled:
    runs that the worker holds and somebody has cancelled, for workers that beat rarely.
    """

    sent: int
    tasks: tuple[RunTask, ...] = ()
    cancelled: tuple[str, ...] = ()


class QueueDemand(Response):
    """What one queue has for the workers of a pool."""

    queue: str
    waiting: int  # runs that one of them would take; for very many, only the next few hundred
    held: int  # runs that they have
    workers: int  # workers needed to hold all of these at once


class WorkersWanted(Response):
    """How many workers of a pool would be useful now, for an autoscaler."""

    workers: int
    # workers that must stay so that none with runs is ended, if those with the highest numbers are removed first
    kept: int
    queues: tuple[QueueDemand, ...]


class ClaimRequest(Request):
    """Claim one run for a worker (compare-and-set; 409 `run_not_claimable` if another worker was faster)."""

    worker_id: str
    gpus: tuple[Count, ...] = Field(
        default=(), max_length=64
    )  # free MB of each GPU that the worker has reserved for the run


class Claim(Response):
    """A lease on a run. Every later call carries `token`. Calls of a stale attempt get 409 `stale_attempt`."""

    run_id: str
    kind: RunKind
    attempt: int
    token: str
    lease_seconds: float
    owner: Slug
    subject: str = ""  # as in RunView
    queued_at: datetime | None = None  # by the hub's clock
    traceparent: Traceparent = ""  # the trace that the run belongs to; empty from an older hub
    led_here: Traceparent = ""  # the trace of the run that this one continues
    payload: StoredObject  # BuildPayload, EvalPayload, ... by kind


class ExtraGpus(Request):
    """GPUs of engines that a training run has beyond its placement while there is room."""

    held: int = Field(default=0, ge=0, le=100_000)
    seconds: float = Field(default=0.0, ge=0, le=1e12)  # GPU seconds in this attempt so far


class Heartbeat(Request):
    """Renews a lease. Sent three times per lease."""

    progress: Progress | None = None
    cpu_seconds: float | None = Field(default=None, ge=0, le=1e9)  # of its processes and boxes, in this attempt so far
    engine_gpus: int | None = Field(default=None, ge=0, le=1024)  # GPUs of the shared engine that the attempt uses
    extra_gpus: ExtraGpus | None = None


class HeartbeatReply(Response):
    """The renewed lease. `cancel` asks the worker to stop and finish with `cancelled`."""

    cancel: bool
    lease_seconds: float


class LogAppend(Request):
    """A piece of a run's log. `offset` is in characters since the attempt's start. A piece may be sent again."""

    offset: Size
    text: str = Field(max_length=MOST_LOGGED)


class LogPage(Response):
    """A run's log from an offset on. `done` means that the run has ended and nothing follows."""

    attempt: int
    offset: int
    next_offset: int
    text: str
    done: bool


class FinishRequest(Request):
    """A worker's final report on its attempt."""

    state: RunState
    failure: Failure | None = None
    cpu_seconds: float = Field(default=0.0, ge=0, le=1e9)  # of its processes and boxes in this attempt
    extra_gpu_seconds: float = Field(default=0.0, ge=0, le=1e12)  # as in ExtraGpus


class LogAppended(Response):
    """The offset of the next piece."""

    next_offset: int
