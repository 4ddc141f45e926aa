"""Writes of the inference app: deployments, loaded by a serve run when somebody calls, and their usage."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F
from envhub.protocol.deployments import DeploymentRequest
from envhub.protocol.inference import ServeAddress, ServePayload
from envhub.protocol.models import ModelSource
from envhub.protocol.runs import RunKind, RunState

from hub.accounts.models import Role, User
from hub.accounts.queries import has_role, require_role
from hub.catalog.models import Model
from hub.catalog.queries import get_model
from hub.catalog.wire import target_for
from hub.core.errors import Conflict, Invalid, NotFound
from hub.inference.models import Deployment
from hub.inference.queries import deployment_of_model
from hub.runs.models import Run
from hub.runs.services import create_run, request_cancel
from hub.secrets.services import encrypt


def create_deployment(*, user: User, request: DeploymentRequest) -> Deployment:
    """Load a model, and keep it loaded as the request says; again changes only that. Raises NotFound, Invalid."""
    model = get_model(user, request.model)
    if model.source != ModelSource.LOCAL.value:
        raise Invalid(
            f"{request.model} is an outside endpoint: it is served already",
            hint="call it at /inference/v1, or name an adapter",
            fields={"model": request.model},
        )
    found = ensure_deployment(model=model, user=user)
    if has_role(user, model.owner, Role.MEMBER):
        settings = {"idle_seconds": request.idle_seconds, "engine": request.engine or ""}
        Deployment.objects.filter(pk=found.pk).update(**settings)
    return found


def ensure_deployment(*, model: Model, user: User) -> Deployment:
    """The deployment of a local model, with a serve run that is not over: a new one when nobody serves it."""
    found = deployment_of_model(model.pk)
    if found is not None and found.is_loaded:
        return found
    with transaction.atomic():
        made, _ = Deployment.objects.get_or_create(model=model, defaults={"created_by": user})
        row = Deployment.objects.select_for_update(of=("self",)).select_related("run").get(pk=made.pk)
        if row.is_loaded:  # another call was faster
            return row
        subject = f"{model.owner.slug}/{model.name}"
        row.run = create_run(
            kind=RunKind.SERVE, owner=model.owner, created_by=user, subject=subject, subject_url="/models"
        )
        row.base_url = row.encrypted_secret = ""
        row.save(update_fields=["run", "base_url", "encrypted_secret"])
    return row


def delete_deployment(*, user: User, deployment: Deployment) -> None:
    """Stop serving a model. Raises NotAllowed."""
    require_role(user, deployment.model.owner, Role.MEMBER)
    with transaction.atomic():
        run = deployment.run
        deployment.delete()
        if run is not None and not RunState(run.state).is_final:
            request_cancel(run=run)


def note_usage(*, deployment_id: UUID, prompt_tokens: int, completion_tokens: int, now: datetime) -> None:
    """Count one call."""
    Deployment.objects.filter(pk=deployment_id).update(
        requests=F("requests") + 1,
        prompt_tokens=F("prompt_tokens") + prompt_tokens,
        completion_tokens=F("completion_tokens") + completion_tokens,
        last_used_at=now,
    )


def report_address(*, run: Run, address: ServeAddress) -> Deployment:
    """The worker serves the model at `address`. Raises NotFound for a run that serves nothing."""
    updated = Deployment.objects.filter(run=run).update(
        base_url=address.base_url.rstrip("/"), encrypted_secret=encrypt(address.secret)
    )
    if updated == 0 or RunState(run.state).is_final:
        raise NotFound("this run serves no model")
    return Deployment.objects.get(run=run)


def serve_payload(run: Run) -> ServePayload:
    """What the worker of a serve run is given. Raises Conflict when the model is gone."""
    deployment = Deployment.objects.select_related("model__owner", "model__base__owner").filter(run=run).first()
    if deployment is None:
        raise Conflict("the deployment was deleted", code="deployment_deleted")
    target = target_for(deployment.model)
    if target.local is None:
        raise Conflict("the model is not a local one any more", code="model_changed")
    local = target.local.model_copy(update={"engine": deployment.engine or target.local.engine})
    return ServePayload(model=target.model, target=local, idle_seconds=deployment.idle_seconds)


def follow_run(run: Run, old: RunState, new: RunState) -> None:
    """An ended run, or one that goes to another worker, has no address."""
    if new.is_final or new is RunState.QUEUED:
        Deployment.objects.filter(run=run).update(base_url="", encrypted_secret="")
