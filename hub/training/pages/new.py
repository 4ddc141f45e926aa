"""The form that starts a training run: fields beside the TOML file that they write into, and what the run needs.

Its fragment "results" is the whole form; "live" is what follows the typing, including the side not typed in.
"""

from __future__ import annotations

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.views.decorators.http import require_http_methods
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.training.runs import TrainingRequest

from hub.accounts.chosen_owner import named_owner
from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import get_owner, has_role, member_owners, require_role
from hub.catalog.queries import suggested_model, visible_models
from hub.core import clock
from hub.core.database_json import storable_text
from hub.core.errors import HubError, Invalid, NotFound
from hub.core.http import validate
from hub.core.pages import fragment_of, page, show
from hub.evals.starting.fields import Maker
from hub.evals.starting.form import ARGUMENT
from hub.registry.argument_inputs import ArgumentInput, argument_inputs
from hub.registry.queries import environments_of, get_version, search_environments
from hub.training.preview import preview
from hub.training.queries import get_training
from hub.training.services import create_training
from hub.training.services.creating import own_reference
from hub.training.toml_fields import environment_of, fields, texts_of, with_fields
from hub.training.wire import toml_for

OFFERED = 200  # environments and models that the form suggests
TEMPLATE = "training/training_new.html"


@page
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def training_new(request: HttpRequest) -> HttpResponseBase:
    """Show the form (GET) or start the run (POST).

    The form begins with a configuration for an `environment` and a `model`, or with that of the run `from`. A POST with
    `show`, or by htmx, only updates the form: it writes the fields into the file or, if `show` or `side` is "file",
    reads them from it.
    """
    user = cast("User", request.user)
    typed = {storable_text(key): storable_text(str(value)) for key, value in request.POST.items()}
    owner = get_owner(user, typed.get("owner") or named_owner(request))
    require_role(user, owner, Role.MEMBER)  # because the form shows the arguments of the owner's private environments
    toml = typed["toml"].replace("\r\n", "\n") if "toml" in typed else _first(request, user)
    starts = request.method == "POST" and "show" not in typed and not fragment_of(request)
    if starts:
        try:
            created = create_training(user=user, owner=owner, request=validate(TrainingRequest, {"toml": toml}))
        except HubError as error:
            context = _form(request, user, owner, toml, {}) | {"error": error}
            return show(request, TEMPLATE, context, status=error.status)
        messages.success(request, "Queued. Charts fill in as steps finish.")
        return redirect("training-run", created.pk)
    errors: dict[str, str] = {}
    if request.method == "POST" and "file" not in (typed.get("side"), typed.get("show")):
        toml, errors = _written(user, owner, toml, typed)
    return show(request, TEMPLATE, _form(request, user, owner, toml, errors, typed))


def _first(request: HttpRequest, user: User) -> str:
    """Return the file that the form begins with. Raises NotFound for an unknown run."""
    if earlier := request.GET.get("from", ""):
        try:
            found = get_training(user, earlier)
            return toml_for(found, inside=has_role(user, found.owner, Role.READER))
        except ValueError as error:
            raise NotFound("the training run does not exist") from error
    given = {name: storable_text(request.GET.get(name, "")).strip() for name in ("environment", "model")}
    given["model"] = given["model"] or suggested_model(user, trainable=True)
    given["environment"] = given["environment"] or _suggested_environment(user)
    return "".join([render_to_string("training/_new.toml", given)])  # a plain string, so that pages escape it


def _suggested_environment(user: User) -> str:
    """Return the environment of the user's owners that is ready for training and changed last; "" without one."""
    rows = environments_of(user).filter(archived=False, lacks=False, latest__state=VersionState.READY.value)
    found = rows.order_by("-updated_at").first()
    return f"{found.owner.slug}/{found.name}" if found else ""


def _written(user: User, owner: Owner, toml: str, typed: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the file with the typed fields written into it, and errors by field; unchanged if it cannot be parsed."""
    try:
        return with_fields(toml, typed, _inputs(user, owner, toml))
    except Invalid as error:
        return toml, dict(error.fields)


def _inputs(user: User, owner: Owner, toml: str) -> tuple[ArgumentInput, ...]:
    """Return the arguments of the first environment, if a ready version describes them."""
    reference = environment_of(toml)
    try:
        version = get_version(user, own_reference(owner, reference)) if reference else None
    except HubError:
        return ()
    if version is None or version.state != VersionState.READY.value:
        return ()
    return argument_inputs((version.describe or {}).get("args_schema"))


def _team_option(user: User, owner: Owner) -> str:
    return f" --team {owner.slug}" if owner.slug != user.username else ""


def _form(
    request: HttpRequest,
    user: User,
    owner: Owner,
    toml: str,
    errors: dict[str, str],
    typed: dict[str, str] | None = None,
) -> dict[str, Any]:
    inputs = _inputs(user, owner, toml)
    try:
        texts, unreadable = texts_of(toml, inputs), ""
    except Invalid as error:
        texts, unreadable = {}, error.message
    texts |= {name: value for name, value in (typed or {}).items() if name in errors}
    found = list(member_owners(user, Role.MEMBER)[:OFFERED])
    is_live = fragment_of(request) == "live"
    side = (typed or {}).get("side", "") if is_live else ""
    others = {ARGUMENT + one.name for one in inputs} ^ {name for name in typed or {} if name.startswith(ARGUMENT)}
    return {
        "section": "training",
        "toml": toml,
        "unreadable": unreadable,
        "fields": fields(texts, errors),
        "arguments": Maker(texts, errors).arguments(inputs),
        "preview": preview(user=user, owner=owner, toml=toml, now=clock.now()),
        "wrong": errors,
        "new_file": side == "fields",
        "new_settings": side == "file" or (side == "fields" and bool(others)),
        "owners": found if owner in found else [owner, *found],
        "owner": owner.slug,
        "is_live": is_live,
        "command": f"hub train run train.toml{_team_option(user, owner)}",
        "environments": search_environments(user).order_by("-pk")[:OFFERED],
        "models": [
            f"{row.owner.slug}/{row.name}"
            for row in visible_models(user).filter(trainable=True).prefetch_related(None)[:OFFERED]
        ],
    }
