"""Writes of the inference app: deployments, loaded by a serve run when their model is called, and their usage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from envhub.protocol.models.catalog import ModelSource
from envhub.protocol.models.deployments import DeploymentRequest
from envhub.protocol.models.inference import ServeAddress, ServePayload
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.training.gpu_need import heads_message

from hub.accounts.acting import note_owner
from hub.accounts.models import Role, User
from hub.accounts.queries import has_role, require_role
from hub.catalog.capacity import engine_need
from hub.catalog.contents import shape_of
from hub.catalog.models import Model
from hub.catalog.queries import get_model
from hub.catalog.wire import target_for
from hub.core.digests import sha256_hex
from hub.core.errors import Conflict, Invalid, NotFound
from hub.inference.models import Deployment
from hub.inference.queries import deployment_of_model
from hub.runs.models import Run
from hub.runs.services import cancel_if_open, create_run
from hub.runs.usage import note_tokens
from hub.secrets.services import encrypt


def create_deployment(*, user: User, request: DeploymentRequest) -> Deployment:
    """Load a model, and keep it loaded as requested; if it is loaded with other settings, load it again.

    Only members of its owner may choose the settings. Raises NotFound, Invalid.
    """
    model = get_model(user, request.model)
    note_owner(model.owner)
    if model.source != ModelSource.LOCAL.value:
        raise Invalid(
            f"{request.model} is an outside endpoint, which is already served",
            hint="call it at /inference/v1, or name an adapter",
            fields={"model": request.model},
        )
    _check_gpus(model, request)
    settings = {
        "idle_seconds": request.idle_seconds,
        "engine": request.engine or "",
        "gpus": request.gpus or 0,
    }
    return _load(model=model, user=user, settings=settings if has_role(user, model.owner, Role.MEMBER) else {})


def _check_gpus(model: Model, request: DeploymentRequest) -> None:
    """Raises Invalid if the engine cannot be split over this many GPUs."""
    if request.gpus is None:
        return
    if (request.engine or model.engine) != "vllm":
        message = "the torch engine does not use GPUs"
        raise Invalid(message, hint='omit gpus, or choose the engine "vllm"', fields={"gpus": message})
    shape = shape_of(model)
    if shape is not None and shape.kv_heads % request.gpus:
        message = heads_message(shape.kv_heads, request.gpus, "gpus")
        raise Invalid(message, fields={"gpus": message})


def ensure_deployment(*, model: Model, user: User) -> Deployment:
    """Return the deployment of a local model with a serve run, which is created if none serves the current model."""
    found = deployment_of_model(model.pk)
    if found is not None and _is_current(found):
        return found
    return _load(model=model, user=user, settings={})


def _load(*, model: Model, user: User, settings: Mapping[str, Any]) -> Deployment:
    """Apply `settings`; replace a run that serves something other than these settings and the model's current files."""
    with transaction.atomic():
        made, _ = Deployment.objects.get_or_create(model=model, defaults={"created_by": user})
        row = _locked().get(pk=made.pk)
        old = row.run
        for name, value in settings.items():
            setattr(row, name, value)
        if not _is_current(row):
            subject = f"{model.owner.slug}/{model.name}"
            row.run = create_run(
                kind=RunKind.SERVE,
                owner=model.owner,
                created_by=user,
                subject=subject,
                subject_url="/models",
                gpus=GpuNeed(count=row.gpus),
                engine=engine_need([model], row.engine),
            )
            row.base_url = row.encrypted_secret = row.loaded_as = ""
        row.save(update_fields=["run", "base_url", "encrypted_secret", "loaded_as", *settings])
    if old is not None and old != row.run:
        cancel_if_open(run=old)  # after the transaction that separated them
    return row


def _locked() -> QuerySet[Deployment]:
    """Select deployments for update, with what they serve."""
    rows = Deployment.objects.select_related("run", "model__owner", "model__base__owner")
    return rows.select_for_update(of=("self",))


def _is_current(row: Deployment) -> bool:
    """Return whether its run serves the model as it is now, or will, since no worker has claimed it yet."""
    if row.run is None or not row.is_loaded or row.run.gpus != row.gpus:
        return False
    return row.loaded_as in {"", _name_of(_payload(row))}


def delete_deployment(*, user: User, deployment: Deployment) -> None:
    """Stop serving a model. Raises NotAllowed."""
    require_role(user, deployment.model.owner, Role.MEMBER)
    with transaction.atomic():
        row = _locked().filter(pk=deployment.pk).first()  # a call may have started a run since it was read
        deployment.delete()
    if row is not None and row.run is not None:
        cancel_if_open(run=row.run)


def note_usage(*, deployment_id: UUID, prompt_tokens: int, completion_tokens: int, now: datetime) -> None:
    """Count one call."""
    Deployment.objects.filter(pk=deployment_id).update(
        requests=F("requests") + 1,
        prompt_tokens=F("prompt_tokens") + prompt_tokens,
        completion_tokens=F("completion_tokens") + completion_tokens,
        last_used_at=now,
    )
    served = Model.objects.filter(deployment=deployment_id).select_related("owner").first()
    if served is not None:
        note_tokens(
            owner_id=served.owner_id,
            kind=RunKind.SERVE,
            model=f"{served.owner.slug}/{served.name}",
            prompt=prompt_tokens,
            completion=completion_tokens,
        )


def report_address(*, run: Run, address: ServeAddress) -> Deployment:
    """Store the address at which the worker serves the model. Raises NotFound if the run serves nothing."""
    updated = Deployment.objects.filter(run=run).update(
        base_url=address.base_url.rstrip("/"), encrypted_secret=encrypt(address.secret)
    )
    if updated == 0 or RunState(run.state).is_final:
        raise NotFound("this run does not serve a model")
    return Deployment.objects.get(run=run)


def serve_payload(run: Run) -> ServePayload:
    """Return the payload of a serve run, and record it with the deployment. Raises Conflict if the model is gone."""
    with transaction.atomic():
        row = _locked().filter(run=run).first()
        if row is None:
            raise Conflict("the deployment was deleted", code="deployment_deleted")
        payload = _payload(row)
        row.loaded_as = _name_of(payload)
        row.save(update_fields=["loaded_as"])
    return payload


def _payload(row: Deployment) -> ServePayload:
    target = target_for(row.model)
    if target.local is None:
        raise Conflict("the model is no longer a local one", code="model_changed")
    local = target.local.model_copy(update={"engine": row.engine or target.local.engine, "gpus": row.gpus})
    return ServePayload(model=target.model, target=local, idle_seconds=row.idle_seconds)


def _name_of(payload: ServePayload) -> str:
    """Return a hash that is equal for payloads with the same effect; their URLs differ each time."""
    target, adapter = payload.target, payload.target.adapter
    files = [target.fingerprint, adapter.fingerprint if adapter else ""]
    return sha256_hex(json.dumps([payload.model, *files, target.engine, payload.idle_seconds, target.gpus]))


def follow_run(run: Run, old: RunState, new: RunState) -> None:
    """`RunKindSpec.on_transition`: clear the address when the run has ended or goes to another worker."""
    if new.is_final or new is RunState.QUEUED:
        Deployment.objects.filter(run=run).update(base_url="", encrypted_secret="", loaded_as="")
