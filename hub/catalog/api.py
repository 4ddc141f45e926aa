"""API of the model catalog: /api/v1/models."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import Page
from envhub.protocol.models.catalog import LocalModelRequest, ModelFiles, ModelRequest, ModelTest, ModelView
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.permissions import check_read, require_scope
from hub.accounts.queries import Caller, get_owner, inside_owners, owner_ids
from hub.catalog.capacity import capacity_now
from hub.catalog.queries import get_model, get_model_of_member, visible_models
from hub.catalog.services import delete_model, probe_model, register_endpoint, register_local
from hub.catalog.wire import model_files_view, model_view
from hub.core.errors import Invalid
from hub.core.http import answer, answer_page, parse
from hub.core.pagination import newest_first
from hub.core.requests.parameters import PAGE, query


@extend_schema(parameters=query("owner", *PAGE), responses=Page[ModelView])
@api_view(["GET"])
def models_list(request: Request) -> HttpResponse:
    """List the models that the caller may call, newest first. `owner` filters the list."""
    check_read(request)
    rows = visible_models(request.user)
    if owner := request.GET.get("owner"):
        rows = rows.filter(owner_id__in=owner_ids(owner))
    capacity = capacity_now(timezone.now())
    found, following = newest_first(rows, request)
    inside = inside_owners(request.user, found)
    return answer_page(found, following, lambda row: model_view(row, capacity, inside=row.owner_id in inside))


@extend_schema(methods=["GET"], responses=ModelView)
@extend_schema(methods=["PUT"], request=ModelRequest, responses=ModelView)
@extend_schema(methods=["DELETE"], responses={204: None})
@api_view(["GET", "PUT", "DELETE"])
def model_detail(request: Request, owner: str, name: str) -> HttpResponse:
    """Return, register or delete a model. PUT registers a model by its endpoints, or replaces it."""
    reference = f"{owner}/{name}"
    if request.method == "GET":
        check_read(request)
        return answer(_view(request.user, reference))
    user = require_scope(request, Scope.WRITE)
    if request.method == "DELETE":
        delete_model(user=user, model=get_model(user, reference))
        return HttpResponse(status=204)
    body = parse(request, ModelRequest)
    if body.name != name:
        raise Invalid("the model in the body does not match the URL", fields={"name": body.name})
    register_endpoint(user=user, owner=get_owner(user, owner), request=body)
    return answer(_view(user, reference))


@extend_schema(request=None, responses=ModelTest)
@api_view(["POST"])
def model_test(request: Request, owner: str, name: str) -> HttpResponse:
    """Test a model by calling each of its variants once."""
    user = require_scope(request, Scope.WRITE)
    return answer(probe_model(user=user, model=get_model(user, f"{owner}/{name}")))


@extend_schema(methods=["GET"], responses=ModelFiles)
@extend_schema(methods=["PUT"], request=LocalModelRequest, responses=ModelView)
@api_view(["GET", "PUT"])
def model_files(request: Request, owner: str, name: str) -> HttpResponse:
    """Return a model's files, or register a model directory.

    Members of the owner can read the files. PUT registers or replaces a directory whose files have been uploaded.
    """
    if request.method == "GET":
        user = require_scope(request, Scope.READ)
        return answer(model_files_view(get_model_of_member(user, f"{owner}/{name}")))
    user = require_scope(request, Scope.WRITE)
    body = parse(request, LocalModelRequest)
    register_local(
        user=user,
        owner=get_owner(user, owner),
        name=name,
        engine=body.engine,
        files=body.files,
        visibility=body.visibility,
    )
    return answer(_view(user, f"{owner}/{name}"))


def _view(user: Caller, reference: str) -> ModelView:
    model = get_model(user, reference)
    inside = inside_owners(user, [model])
    return model_view(model, capacity_now(timezone.now()), inside=model.owner_id in inside)
