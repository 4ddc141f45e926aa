"""`prime deployments list|create|delete` of prime 0.6 to 0.13: adapters of training runs, and their deployments."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseBase
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import JsonObject
from envhub.protocol.models.deployments import DeploymentRequest
from envhub.protocol.runs import RunState
from rest_framework.request import Request

from hub.accounts.models import User
from hub.accounts.permissions import require_scope
from hub.catalog.queries import get_model
from hub.compat.answers import MOST_COUNTED, MOST_ROWS, answered, client_view, counted, number, printable
from hub.compat.names import acting_owner
from hub.core.errors import Conflict, NotFound
from hub.core.ids import GivenId
from hub.inference.models import Deployment
from hub.inference.queries import deployment_of_model
from hub.inference.services import create_deployment, delete_deployment
from hub.training.models import Adapter
from hub.training.queries import adapter_of_checkpoint, adapter_of_model, adapters_of_owner, get_checkpoint


@client_view("GET")
def adapter_list(request: Request) -> HttpResponseBase:
    """List the adapters of the caller or a team, newest first."""
    user = require_scope(request, Scope.READ)
    rows = adapters_of_owner(acting_owner(user, request.query_params.dict()))
    offset = number(request, "offset", 0, most=MOST_COUNTED)
    limit = number(request, "limit", 20, most=MOST_ROWS)
    shown = rows.select_related("model__deployment__run")[offset : offset + limit]
    found = [_adapter(row, getattr(row.model, "deployment", None)) for row in shown]
    return answered({"adapters": found, "total": counted(rows)})


@client_view("GET")
def deployable_models(request: Request) -> HttpResponseBase:
    """Return the bases of the caller's adapters: a hub can serve whatever it has trained."""
    rows = adapters_of_owner(acting_owner(require_scope(request, Scope.READ), request.query_params.dict()))
    return answered({"models": sorted({_base(row) for row in rows[:MOST_COUNTED]})})


@client_view("GET")
def adapter(request: Request, owner: str, model: str) -> HttpResponseBase:
    """Return one adapter; its id is the name of its model."""
    return _one(_found(require_scope(request, Scope.READ), owner, model))


@client_view("POST")
def adapter_deploy(request: Request, owner: str, model: str) -> HttpResponseBase:
    """Load an adapter behind /inference/v1, which calls it by `owner/name`, or `base:owner/name`."""
    user = require_scope(request, Scope.WRITE)
    return _deployed(user, _found(user, owner, model))


@client_view("POST")
def adapter_unload(request: Request, owner: str, model: str) -> HttpResponseBase:
    """Stop serving an adapter, which is kept."""
    user = require_scope(request, Scope.WRITE)
    row = _found(user, owner, model)
    deployment = deployment_of_model(row.model_id)
    if deployment is None:
        raise Conflict(f"{owner}/{model} is not deployed")
    delete_deployment(user=user, deployment=deployment)
    return _one(row)


@client_view("POST")
def checkpoint_deploy(request: Request, checkpoint_id: GivenId) -> HttpResponseBase:
    """Load the adapter that a run made at a checkpoint's step."""
    user = require_scope(request, Scope.WRITE)
    checkpoint = get_checkpoint(user, str(checkpoint_id))
    row = adapter_of_checkpoint(checkpoint)
    if row is None:
        hint = "`prime deployments list` shows those that there are; [adapters] interval = N makes one every N steps"
        raise NotFound(f"the run has no adapter of step {checkpoint.step}", hint=printable(hint))
    return _deployed(user, row)


def _found(user: User, owner: str, model: str) -> Adapter:
    return adapter_of_model(get_model(user, f"{owner}/{model}"))


def _deployed(user: User, row: Adapter) -> HttpResponse:
    create_deployment(user=user, request=DeploymentRequest(model=_name(row)))
    return _one(row)


def _one(row: Adapter) -> HttpResponse:
    return answered({"adapter": _adapter(row, deployment_of_model(row.model_id))})


def _name(row: Adapter) -> str:
    return f"{row.model.owner.slug}/{row.model.name}"


def _base(row: Adapter) -> str:
    base = row.model.base
    return f"{base.owner.slug}/{base.name}" if base else row.base_name


def _adapter(row: Adapter, deployment: Deployment | None) -> JsonObject:
    run = deployment.run if deployment else None
    failure = (run.failure if run else None) or {}
    return {
        "id": _name(row),
        "displayName": row.model.name,
        "userId": str(row.training.created_by_id) if row.training else "",
        "teamId": None,
        "rftRunId": str(row.training_id or ""),
        "baseModel": _base(row),
        "step": row.step,
        "status": "READY",
        "deploymentStatus": _status(deployment),
        "deployedAt": deployment.created_at.isoformat() if deployment else None,
        "deploymentError": printable(str(failure.get("message", ""))) or None,
        "createdAt": row.created_at.isoformat(),
        "updatedAt": row.model.updated_at.isoformat(),
    }


def _status(deployment: Deployment | None) -> str:
    """Return the status; a model that was unloaded when idle counts as not deployed, and a call loads it again."""
    if deployment is None or deployment.run is None:
        return "NOT_DEPLOYED"
    if deployment.is_loaded:
        return "DEPLOYED" if deployment.base_url else "DEPLOYING"
    return "DEPLOY_FAILED" if deployment.run.state == RunState.FAILED else "NOT_DEPLOYED"
