"""Writes of sandboxes: making one, ending one, and following its run."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Sum
from envhub.protocol.placing.abilities import SANDBOX_MODELS, SANDBOX_SIBLINGS
from envhub.protocol.runs import Failure, FailureKind, RunKind, RunState
from envhub.protocol.sandboxes.sandboxes import (
    PortRequest,
    SandboxPayload,
    SandboxReport,
    SandboxRequest,
    SandboxState,
    SiblingLimits,
)

from hub.accounts.models import Owner, User
from hub.accounts.queries import get_owner, require_role
from hub.core import clock
from hub.core.errors import Conflict, Invalid, NotFound
from hub.core.ids import GivenId, find_by_id
from hub.runs.box_hosts import check_hosts
from hub.runs.models import Run
from hub.runs.services import cancel_if_open, create_run, end_attempt
from hub.sandboxes.addresses import clients_origin
from hub.sandboxes.model_access import check_models, end_model_token, new_model_token
from hub.sandboxes.models import Sandbox, SandboxLabel, SandboxPort
from hub.sandboxes.queries import live_sandboxes, place_of
from hub.secrets.services import decrypt, encrypt

MOST_PORTS = 100  # addresses of one sandbox
LATE_S = 86_400.0  # after its claim a sandbox may wait for its image; addresses end with it anyway
LOST = Failure(
    kind=FailureKind.INFRASTRUCTURE,
    code="worker_lost",
    message="the worker with the sandbox stopped, and the sandbox's contents are lost",
    hint="create a new one",
)


def create_sandbox(*, user: User, request: SandboxRequest) -> Sandbox:
    """Queue the run that makes it. Raises NotFound, NotAllowed, Invalid, Conflict (`too_many_sandboxes`)."""
    owner = get_owner(user, request.owner) if request.owner else user.owner
    require_role(user, owner)
    _check_limits(request)
    check_hosts(request.allow_hosts)
    check_models(user, request.models)
    with transaction.atomic():
        _check_number(owner, 1 + request.siblings)
        run = create_run(
            kind=RunKind.SANDBOX,
            owner=owner,
            created_by=user,
            subject=request.name or request.image,
            subject_url="",
            ability=_ability(request),
        )
        sandbox = Sandbox.objects.create(
            owner=owner,
            run=run,
            name=request.name,
            image=request.image,
            cpus=request.cpus,
            memory_mb=request.memory_mb,
            disk_mb=request.disk_mb,
            timeout_s=request.timeout_s or _lifetime_s(request),
            idle_s=request.idle_s,
            start_command=list(request.start_command),
            allow_hosts=list(request.allow_hosts),
            model_names=list(dict.fromkeys(request.models)),
            siblings=request.siblings,
            variables=sorted(request.env),
            encrypted_env=encrypt(json.dumps(request.env)) if request.env else "",
            created_by=user,
        )
        Run.objects.filter(pk=run.pk).update(subject_url=f"/sandboxes/{sandbox.pk}")
        labels = dict.fromkeys(request.labels)
        SandboxLabel.objects.bulk_create(SandboxLabel(sandbox=sandbox, text=label) for label in labels)
    return sandbox


def _check_limits(request: SandboxRequest) -> None:
    hub = settings.HUB
    most = {
        "cpus": hub.sandbox_max_cpus,
        "memory_mb": hub.sandbox_max_memory_mb,
        "disk_mb": hub.sandbox_max_disk_mb,
        "timeout_s": hub.sandbox_max_timeout_s,
    }
    for name, limit in most.items():
        asked = getattr(request, name)
        if asked is not None and asked > limit:
            raise Invalid(
                f"a sandbox's {name} may be at most {limit:g}",
                code="sandbox_limit",
                hint=f"ask for less, or ask the operator to raise HUB_SANDBOX_MAX_{name.upper()}",
                fields={name: f"at most {limit:g}"},
            )


def _lifetime_s(request: SandboxRequest) -> float:
    """Unless its maker says: programs outside may take long, and end what they began."""
    return settings.HUB.sandbox_max_timeout_s if request.siblings else settings.HUB.sandbox_timeout_s


def _ability(request: SandboxRequest) -> str:
    """The newest that it needs."""
    if request.siblings:
        return SANDBOX_SIBLINGS
    return SANDBOX_MODELS if request.models else ""


def _check_number(owner: Owner, wanted: int) -> None:
    most = settings.HUB.owner_sandboxes
    if not most:
        return
    Owner.objects.select_for_update().get(pk=owner.pk)  # requests at one time take turns to count
    living = live_sandboxes(owner)[:most].aggregate(count=Count("pk"), siblings=Sum("siblings"))
    has = living["count"] + (living["siblings"] or 0)
    if has + wanted > most:
        asked = f", and {wanted} more are asked for" if wanted > 1 else ""
        raise Conflict(
            f"{owner.slug} has {has} sandboxes{asked}; an owner may have at most {most} at once",
            code="too_many_sandboxes",
            hint="end one that you do not need: `hub sandbox delete`",
        )


def delete_sandbox(*, user: User, sandbox: Sandbox) -> None:
    """End it; one that has ended stays as it is. Raises NotAllowed."""
    require_role(user, sandbox.owner)
    cancel_if_open(run=sandbox.run)


def open_port(*, user: User, sandbox: Sandbox, request: PortRequest, now: datetime) -> SandboxPort:
    """For as long as it asks. Raises NotAllowed, Conflict for a sandbox that does not run or has MOST_PORTS open."""
    require_role(user, sandbox.owner)
    place_of(sandbox)
    SandboxPort.objects.filter(sandbox=sandbox, expires_at__lte=now).delete()
    if SandboxPort.objects.filter(sandbox=sandbox).count() >= MOST_PORTS:
        raise Conflict(
            f"{MOST_PORTS} port addresses of this sandbox are already open",
            code="too_many_ports",
            hint="close some: `hub sandbox ports ID PORT --close`",
        )
    expires_at = now + timedelta(seconds=round(request.seconds))
    return SandboxPort.objects.create(sandbox=sandbox, number=request.port, name=request.name, expires_at=expires_at)


def close_port(*, user: User, sandbox: Sandbox, port_id: GivenId) -> None:
    """Its address leads nowhere from now on; connections end within seconds. Raises NotAllowed, NotFound,
    AmbiguousId."""
    require_role(user, sandbox.owner)
    found = find_by_id(SandboxPort.objects.filter(sandbox=sandbox).order_by("pk"), port_id, str)
    if found is None or not found.delete()[0]:
        raise NotFound("this port is not open", hint="`hub sandbox ports ID` lists the open ports")


def sandbox_payload(run: Run) -> SandboxPayload:
    """What the worker of a sandbox run is given."""
    row = Sandbox.objects.select_related("created_by", "model_token").get(run=run)
    return SandboxPayload(
        sandbox_id=str(row.pk),
        name=row.name,
        image=row.image,
        cpus=row.cpus,
        memory_mb=row.memory_mb,
        disk_mb=row.disk_mb,
        timeout_s=row.timeout_s,
        idle_s=row.idle_s,
        env=json.loads(decrypt(row.encrypted_env)) if row.encrypted_env else {},
        start_command=tuple(row.start_command),
        allow_hosts=tuple(row.allow_hosts),
        labels=tuple(row.label_rows.order_by("pk").values_list("text", flat=True)),
        file_bytes=settings.HUB.sandbox_file_mb * 1024**2,
        models=tuple(row.model_names),
        model_token=new_model_token(row),
        siblings=_sibling_limits(row) if row.siblings else None,
    )


def _sibling_limits(row: Sandbox) -> SiblingLimits:
    hub = settings.HUB
    return SiblingLimits(
        at_once=row.siblings,
        cpus=hub.sandbox_max_cpus,
        memory_mb=hub.sandbox_max_memory_mb,
        disk_mb=hub.sandbox_max_disk_mb,
        origin=clients_origin(row, row.timeout_s + LATE_S),
    )


@transaction.atomic
def note_report(*, run: Run, report: SandboxReport, now: datetime) -> Sandbox:
    """What its worker says: it runs, or how it has ended. Raises NotFound for a run without a sandbox, Invalid."""
    row = Sandbox.objects.select_for_update().filter(run=run).first()
    if row is None or SandboxState(row.state).is_final:
        raise NotFound("this run has no running sandbox")
    if report.state is SandboxState.RUNNING:
        if not report.base_url or len(report.secret) < 16:
            raise Invalid("a running sandbox must have an address and a secret", fields={"base_url": "missing"})
        row.base_url, row.encrypted_secret = report.base_url.rstrip("/"), encrypt(report.secret)
        row.started_at = now
        for name in ("cpus", "memory_mb", "disk_mb"):
            setattr(row, name, getattr(report, name) or getattr(row, name))
    row.state, row.reason = report.state.value, report.reason
    if report.state.is_final:
        _end(row, now)
    row.save()
    return row


def _end(row: Sandbox, now: datetime) -> None:
    end_model_token(row)
    row.base_url = row.encrypted_secret = row.encrypted_env = ""
    row.ended_at = now


def follow_run(run: Run, old: RunState, new: RunState) -> None:
    """An ended run ends its sandbox. One that a worker gives back is made anew only while nobody could use it yet:
    an empty sandbox in the place of one with somebody's files would be worse than none.
    """
    if not new.is_final and new is not RunState.QUEUED:
        return
    row = Sandbox.objects.select_for_update().filter(run=run).first()
    if row is None:
        return
    now = clock.now()
    if new is RunState.QUEUED:
        if row.started_at is not None or SandboxState(row.state).is_final:
            end_attempt(run=run, to=RunState.FAILED, now=now, failure=LOST)
        return
    if not SandboxState(row.state).is_final:
        row.state = (SandboxState.FAILED if new is RunState.FAILED else SandboxState.STOPPED).value
        if new is RunState.FAILED and run.failure:
            row.reason = Failure.model_validate(run.failure).message[:2000]
    _end(row, row.ended_at or now)
    row.save()
