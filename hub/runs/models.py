"""Runs, the workers that lease them, and their logs."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.traces import TraceContext

from hub.accounts.models import Owner
from hub.core.ids import new_id


class Worker(models.Model):
    """A group of worker processes on one host that has joined the hub."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=100)
    hostname = models.CharField(max_length=255)
    queues = models.JSONField(default=list)
    slots = models.JSONField(default=dict)
    sandbox = models.CharField(max_length=16, default="")
    facts = models.JSONField(default=dict)  # envhub.protocol.runs.WorkerFacts
    token = models.ForeignKey("WorkerToken", on_delete=models.CASCADE, related_name="workers")
    joined_at = models.DateTimeField(auto_now=True)
    seen_at = models.DateTimeField(db_index=True)
    free_gpus = models.JSONField(default=list)  # free MB of each that no run of it holds, less what is on its way
    busy_gpus = models.JSONField(default=list)  # MB of each that one holds
    engines = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))  # EngineCounts
    # envhub.protocol.placing.gpus.GpuUse of each GPU, and hub.runs.gpu_use.History
    gpu_use = models.JSONField(default=list, db_default=[])
    gpu_history = models.JSONField(default=list, db_default=[])
    drained_at = models.DateTimeField(null=True, blank=True)  # since then it is sent nothing new

    class Meta:
        constraints = [models.UniqueConstraint(fields=["token", "name", "hostname"], name="worker_once")]

    def __str__(self) -> str:
        return self.name


class Lane(models.Model):
    """A worker's own message queue for one queue of runs, and how many more runs it could take now."""

    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="lanes")
    queue = models.CharField(max_length=32)
    # From its last beat, minus what was sent since; NULL: closed.
    room = models.PositiveIntegerField(null=True, default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["worker", "queue"], name="lane_once")]
        indexes = [models.Index(fields=["queue", "-room"], name="lane_with_room", condition=models.Q(room__gt=0))]

    def __str__(self) -> str:
        return f"{self.queue} of {self.worker_id}: {self.room}"


class WorkerToken(models.Model):
    """A token with which workers join, for certain queues and owners (empty: all). Stored hashed; revocable."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    queues = models.JSONField(default=list)  # empty means all
    owners = models.ManyToManyField(Owner, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """One queued piece of work. Its state changes only through hub.runs.services."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=8, choices=[(kind.value, kind.value) for kind in RunKind])
    state = models.CharField(
        max_length=10, choices=[(state.value, state.value) for state in RunState], default=RunState.QUEUED.value
    )
    queue = models.CharField(max_length=32)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="runs")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    parent = models.ForeignKey(  # the run that this one helps and ends with
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="parts", db_index=False
    )  # the index is run_part
    parts_wanted = models.PositiveIntegerField(
        default=0, db_default=0
    )  # parts that it has enough work for, if workers had room
    subject = models.CharField(max_length=300)
    subject_url = models.CharField(max_length=500, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField(default=3)
    gpus = models.PositiveIntegerField(default=0)  # number that it needs from one worker, or from its cluster
    gpu_memory_mb = models.PositiveIntegerField(default=0)  # of each GPU
    hosts = models.PositiveSmallIntegerField(default=1, db_default=1)  # more than one: hosts of the worker's cluster
    gpus_by_host = models.JSONField(default=list, db_default=[])  # how `gpus` are distributed over several hosts
    # One of envhub.protocol.placing.abilities that its worker must have; empty: any worker will do.
    ability = models.CharField(max_length=32, blank=True, default="", db_default="")
    # An engine that its worker must have to serve its models; empty: none.
    engine = models.CharField(max_length=8, blank=True, default="", db_default="")
    weights_mb = models.PositiveIntegerField(default=0, db_default=0)  # of the largest of its models
    worker = models.ForeignKey(
        Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="runs", db_index=False
    )  # the index is run_by_worker
    sent_to = models.ForeignKey(
        Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )  # the index is run_on_its_way
    # Until then, the message to that worker is trusted to arrive.
    sent_until = models.DateTimeField(null=True, blank=True)
    sends = models.PositiveIntegerField(default=0)  # messages sent for the next or current attempt
    token_digest = models.CharField(max_length=64, blank=True)  # hash of the current attempt's run token
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)  # end of the back-off before the next attempt
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    # In the format of envhub.protocol.traces.
    traceparent = models.CharField(max_length=55, blank=True, default="", db_default="")
    led_here = models.CharField(
        max_length=55, blank=True, default="", db_default=""
    )  # the traceparent of the run that this one continues
    progress = models.JSONField(null=True, blank=True)
    failure = models.JSONField(null=True, blank=True)  # envhub.protocol.runs.Failure
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    cpu_seconds = models.FloatField(default=0.0, db_default=0.0)  # of all attempts, as their workers say
    attempt_cpu_seconds = models.FloatField(default=0.0, db_default=0.0)  # of those, the newest attempt's
    # GPUs of the worker's engine that the attempt uses, as the worker says: not placed with the run, as `gpus` are.
    engine_gpus = models.PositiveSmallIntegerField(default=0, db_default=0)
    # Of engines that the attempt has beyond its placement, as the worker says: now, and in GPU seconds so far.
    extra_gpus = models.PositiveIntegerField(default=0, db_default=0)
    extra_gpu_seconds = models.FloatField(default=0.0, db_default=0.0)

    class Meta:
        indexes = [
            models.Index(fields=["queue", "id"], name="run_waiting", condition=models.Q(state="queued")),
            models.Index(
                fields=["queue", "owner", "id"], name="run_waiting_by_owner", condition=models.Q(state="queued")
            ),
            models.Index(
                fields=["kind", "attempt", "created_at"],
                name="run_waiting_by_kind",
                condition=models.Q(state="queued"),
            ),
            models.Index(
                fields=["lease_expires_at"], name="run_leased", condition=models.Q(state__in=["leased", "running"])
            ),
            models.Index(fields=["owner", "-id"], name="run_by_owner"),
            models.Index(fields=["owner", "state", "-id"], name="run_by_owner_state"),
            models.Index(fields=["owner", "kind", "-id"], name="run_by_owner_kind"),
            models.Index(fields=["state", "-id"], name="run_by_state"),
            models.Index(fields=["kind", "-id"], name="run_by_kind"),
            models.Index(fields=["-finished_at"], name="run_failed", condition=models.Q(state="failed")),
            models.Index(
                fields=["owner", "-finished_at"], name="run_failed_by_owner", condition=models.Q(state="failed")
            ),
            models.Index(fields=["worker", "state"], name="run_by_worker"),
            models.Index(fields=["sent_to"], name="run_on_its_way", condition=models.Q(state="queued")),
            models.Index(fields=["parent"], name="run_part", condition=models.Q(parent__isnull=False)),
            models.Index(
                fields=["parent"],
                name="run_open_part",
                condition=models.Q(parent__isnull=False, state__in=["queued", "leased", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    @property
    def trace_id(self) -> str | None:
        """The trace id; None for a run older than tracing."""
        context = TraceContext.of_run(self.traceparent)
        return context.trace_id if context else None


class RunLogPiece(models.Model):
    """Part of one attempt's log, by character offset from the attempt's start."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_pieces")
    attempt = models.PositiveIntegerField()
    offset = models.BigIntegerField()
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "attempt", "offset"], name="log_piece_once")]

    def __str__(self) -> str:
        return f"{self.run_id}#{self.attempt}+{self.offset}"


class RunSandboxes(models.Model):
    """The last report of a run's worker about the sandboxes inside; deleted when the worker no longer has the run."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="sandboxes_inside")
    living = models.PositiveIntegerField()
    items = models.JSONField(default=list)  # envhub.protocol.sandboxes.live.LiveSandbox
    ending = models.JSONField(default=dict)  # sandbox ids to end -> who asked for it
    told_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.living} of {self.run_id}"


class LostLeases(models.Model):
    """How many leases of a kind have ever expired. Stored in a row because the sweeper serves no metrics page."""

    kind = models.CharField(max_length=8, primary_key=True)
    count = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.count} of {self.kind}"


class RunPace(models.Model):
    """How long runs of a kind take, as a mean weighted towards the newest. Used to estimate when a run may start."""

    kind = models.CharField(max_length=8, primary_key=True)
    seconds = models.FloatField(default=0.0)
    runs = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.kind}: {self.seconds:.1f} s"


class OwnerUsage(models.Model):
    """What an owner's runs of one kind used on a day (UTC)."""

    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    kind = models.CharField(max_length=8)
    run_seconds = models.FloatField(default=0.0)
    gpu_seconds = models.FloatField(default=0.0)
    cpu_seconds = models.FloatField(default=0.0, db_default=0.0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "day", "kind"], name="owner_usage_once")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.owner_id} on {self.day}"


class OwnerModelUsage(models.Model):
    """The tokens of one model used by an owner's runs of all kinds on a day (UTC)."""

    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    model = models.CharField(max_length=255)  # owner/name, as in the runs
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.FloatField(default=0.0)  # US dollars, if it has a price

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "day", "model"], name="owner_model_usage_once")]

    def __str__(self) -> str:
        return f"{self.model} for {self.owner_id} on {self.day}"


class SweepLock(models.Model):
    """The sweeper's lock in databases without advisory locks (SQLite): one row per name, taken over when it expires."""

    name = models.CharField(max_length=32, primary_key=True)
    holder = models.CharField(max_length=64)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder}"
