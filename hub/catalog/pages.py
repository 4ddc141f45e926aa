"""The page of models: what may be called, adding an endpoint (tested when saved), testing and removing one."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST
from envhub.protocol.models.catalog import EndpointKind, EndpointVariant, ModelRequest
from envhub.protocol.visibility import Visibility

from hub.accounts.chosen_owner import default_owner
from hub.accounts.models import Role, User
from hub.accounts.queries import Caller, get_owner, inside_owners, member_owners, owner_ids, require_role
from hub.catalog.capacity import capacity_now
from hub.catalog.queries import get_model, visible_models
from hub.catalog.services import delete_model, probe_model, register_endpoint
from hub.catalog.wire import model_view
from hub.core.errors import HubError, NotAuthenticated
from hub.core.http import validate
from hub.core.pages import page, show
from hub.core.pagination import newest_first


@page
@require_http_methods(["GET", "HEAD", "POST"])
def model_list(request: HttpRequest) -> HttpResponseBase:
    """Models that the user may call; POST adds an endpoint and says what came of its test."""
    if request.method != "POST":
        return show(request, "catalog/model_list.html", _listing(request))
    user = request.user
    if not isinstance(user, User):
        raise NotAuthenticated("sign in first")
    try:
        owner = get_owner(user, request.POST.get("owner", user.username))
        wanted = _wanted(request)
        saved = register_endpoint(user=user, owner=owner, request=wanted)
    except HubError as error:
        form = {key: value for key, value in request.POST.items() if key != "api_key"}
        context = _listing(request) | {"error": error, "form": form, "open": True}
        return show(request, "catalog/model_list.html", context, status=error.status)
    outcome = "the test passed" if wanted.test else "not tested"
    messages.success(request, f"Saved {owner.slug}/{saved.name}: {outcome}.")
    return redirect("models")


def _listing(request: HttpRequest) -> dict[str, Any]:
    narrowed = request.GET.get("owner", "").strip()
    visible = visible_models(request.user)
    if narrowed:
        visible = visible.filter(owner_id__in=owner_ids(narrowed))
    rows, following = newest_first(visible, request)
    owners = member_owners(request.user, Role.MEMBER)[:100]
    mine, inside = {owner.pk for owner in owners}, inside_owners(request.user, rows)
    capacity = capacity_now(timezone.now())
    return {
        "section": "models",
        "models": [
            (
                row,
                model_view(row, capacity, inside=row.owner_id in inside),
                row.owner_id in mine,
                row.owner_id in inside,
            )
            for row in rows
        ],
        "next": following,
        "owner": narrowed,
        "owners": owners,
        "kinds": [kind.value for kind in EndpointKind],
        "form": {"kind": EndpointKind.OPENAI.value, "test": "on", "owner": default_owner(request)},
    }


def _wanted(request: HttpRequest) -> ModelRequest:
    """The form as the API's own type. Raises Invalid."""
    form = request.POST
    variant: dict[str, object] = {
        key: form[key].strip() for key in ("kind", "base_url", "model", "api_key", "timeout_s") if form.get(key)
    }
    prices = {key: form[key].strip() for key in ("input_price", "output_price") if form.get(key, "").strip()}
    body = {
        "name": form.get("name", "").strip(),
        "variants": [validate(EndpointVariant, variant)],
        "test": "test" in form,
        "visibility": Visibility.PUBLIC if "public" in form else Visibility.PRIVATE,
        **prices,
    }
    return validate(ModelRequest, body)


def _caller(request: HttpRequest) -> User:
    return cast("User", request.user)


@page
@login_required
@require_POST
def model_test(request: HttpRequest, owner: str, name: str) -> HttpResponse:
    """Call every endpoint of a model once now."""
    user = _caller(request)
    result = probe_model(user=user, model=get_model(user, f"{owner}/{name}"))
    seconds = max((variant.seconds for variant in result.variants), default=0.0)
    if result.ok:
        messages.success(request, f"{owner}/{name} responded in {seconds:.2f} s.")
    else:
        failed = next(variant for variant in result.variants if not variant.ok)
        messages.error(request, f"{owner}/{name}: {failed.base_url}: {failed.message}")
    return redirect("models")


@page
@login_required
@require_POST
def model_delete(request: HttpRequest, owner: str, name: str) -> HttpResponse:
    """Remove a model; evaluations keep its name."""
    user: Caller = _caller(request)
    model = get_model(user, f"{owner}/{name}")
    require_role(user, model.owner, Role.MEMBER)
    delete_model(user=_caller(request), model=model)
    messages.info(request, f"Deleted {owner}/{name}. Its evaluations keep the model's name.")
    return redirect("models")
