"""The page with the form that starts an evaluation. Its fragment "results" is the whole form; "live" is the part that
follows the typing: the obstacles and the equivalent command."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods
from envhub.protocol.evals.command_line import command_of
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.evals.replays import Replay
from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.registry.packages import VersionState
from pydantic import ValidationError

from hub.accounts.chosen_owner import default_owner
from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import SYSTEM_OWNER, get_owner, member_owners, require_role
from hub.catalog.making import TINY
from hub.catalog.queries import is_tiny_being_made, suggested_model, visible_models
from hub.core import clock
from hub.core.database_json import storable_text
from hub.core.errors import HubError, Invalid, NotFound
from hub.core.form_fields import Field
from hub.core.pages import fragment_of, page, show
from hub.evals.queries import configuration_of, get_evaluation
from hub.evals.replays import find_origin
from hub.evals.services import create_evaluation
from hub.evals.starting.fields import Maker
from hub.evals.starting.form import ARGUMENT, JUDGE, REPLAY, SECRET, grants_of, read_form, replay_of, texts_of
from hub.evals.starting.preflight import obstacles
from hub.registry.argument_inputs import ArgumentInput, argument_inputs
from hub.registry.building import building_context
from hub.registry.models import Environment, Version
from hub.registry.pages import environment_context
from hub.registry.queries import environment_versions, get_version_of, newest
from hub.registry.readiness import known_needs, reference_of
from hub.secrets.queries import secrets_of

OFFERED = 200  # models, versions, secrets to choose from
_GIVEN = ("model", "owner", "num_examples", REPLAY)  # fields that the address may set


@page
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def evaluate(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """Show the form (GET) or start the evaluation (POST).

    The form is filled from the defaults of a `version`, an evaluation `from`, or the evaluation whose rollout is to be
    replayed (`replay`); the address may override `model`, `owner` and `num_examples`. A POST with `show`, or by htmx,
    only shows the form again for what was typed.
    """
    user = cast("User", request.user)
    context = environment_context(request, owner, name, tab="evaluate")
    environment: Environment = context["environment"]
    replayed = replay_of(request.GET.dict())
    earlier = _earlier(user, environment, replayed, request.GET.get("from", ""))
    asked = (
        request.POST.get("version")
        or request.GET.get("version")
        or (earlier.config.environment.partition("@")[2] if earlier else "")
    )
    versions = list(environment_versions(environment).order_by("-pk")[:OFFERED])
    version = _version(environment, versions, asked)
    if version is None:
        return show(request, "evals/environment_evaluate.html", context | _unready(versions))
    if "wait" in request.GET and fragment_of(request):  # the page's header says that the version is building
        return HttpResponse(headers={"HX-Refresh": "true"})
    inputs = argument_inputs((version.describe or {}).get("args_schema"))
    texts = {storable_text(key): storable_text(str(value)) for key, value in request.POST.items()}
    if request.method != "POST":
        texts = _first_texts(request, user, version, inputs, earlier)
    acting = get_owner(user, texts.get("owner") or user.username)
    require_role(user, acting, Role.MEMBER)  # because the form lists the names of the owner's secrets
    config, error = _read(texts, inputs, version)
    starts = request.method == "POST" and not fragment_of(request) and "show" not in texts
    if starts and config is not None:
        try:
            created = create_evaluation(user=user, owner=acting, config=config)
        except HubError as refused:
            error = refused
        else:
            messages.success(request, "Queued. Figures fill in as rollouts finish.")
            return redirect("evaluation", created.pk)
    shown = error if starts else None
    context |= _form(user, acting, version, versions, inputs, texts, shown)
    context |= _preview(user, acting, version, config, error)
    return show(request, "evals/environment_evaluate.html", context, status=shown.status if shown else 200)


def _unready(versions: list[Version]) -> dict[str, Any]:
    """Return why there is no form; if the newest version is being built, also what the build waits for."""
    return {"versions": versions, **building_context(versions[0] if versions else None)}


def _version(environment: Environment, versions: list[Version], asked: str) -> Version | None:
    """Return the requested version, else the newest that is ready. Raises NotFound for an unknown one."""
    if asked:
        return get_version_of(environment, asked)
    ready = newest([version for version in versions if version.state == VersionState.READY.value])
    return get_version_of(environment, ready.version) if ready else None


class Earlier(NamedTuple):
    """The configuration and the owner of the evaluation or replayed rollout that fills the form."""

    config: EvaluationConfig
    owner: Owner


def _earlier(user: User, environment: Environment, replayed: Replay | None, evaluation_id: str) -> Earlier | None:
    """Return how the replayed rollout or the evaluation was made, if it is of this environment.

    Raises NotFound, AmbiguousId.
    """
    if replayed:
        origin = find_origin(user, replayed)
        if origin.environment != environment:
            raise NotFound("that rollout belongs to another environment")
        return Earlier(origin.config(), origin.owner)
    if not evaluation_id:
        return None
    try:
        found = get_evaluation(user, evaluation_id)
    except ValueError as error:  # not an id
        raise NotFound("the evaluation does not exist") from error
    if found.environment_id != environment.pk:
        raise NotFound("that evaluation belongs to another environment")
    return Earlier(configuration_of(found), found.owner)


def _first_texts(
    request: HttpRequest,
    user: User,
    version: Version,
    inputs: tuple[ArgumentInput, ...],
    earlier: Earlier | None,
) -> dict[str, str]:
    if earlier is not None:
        config = earlier.config
    else:
        tiny = f"{SYSTEM_OWNER}/{TINY}"
        model = suggested_model(user)
        if model != tiny and is_tiny_being_made():
            model = tiny
        defaults = version.eval_config
        own = {
            key: defaults[key] for key in ("num_examples", "rollouts_per_example") if isinstance(defaults.get(key), int)
        }
        fields = {"environment": reference_of(version), "model": model, **grants_of(known_needs(version))}
        try:
            config = EvaluationConfig.model_validate(fields | own)
        except ValidationError:  # the package's defaults may be any number
            config = EvaluationConfig.model_validate(fields)
    texts = texts_of(config, inputs)
    if earlier and member_owners(user, Role.MEMBER).filter(pk=earlier.owner.pk).exists():
        texts["owner"] = earlier.owner.slug
    texts.setdefault("owner", default_owner(request))
    given = {key: storable_text(request.GET[key]) for key in _GIVEN if request.GET.get(key)}
    return texts | given


def _read(
    texts: dict[str, str], inputs: tuple[ArgumentInput, ...], version: Version
) -> tuple[EvaluationConfig | None, HubError | None]:
    try:
        return read_form(texts, inputs, reference_of(version)), None
    except HubError as error:
        return None, error


def _form(
    user: User,
    acting: Owner,
    version: Version,
    versions: list[Version],
    inputs: tuple[ArgumentInput, ...],
    texts: dict[str, str],
    error: HubError | None,
) -> dict[str, Any]:
    errors = dict(error.fields) if error else {}
    if error and error.code in ("model_not_found", "model_being_made"):
        errors.setdefault("model", error.message)
    make = Maker({"split": "eval", **texts}, errors)
    rows = list(visible_models(user).prefetch_related(None)[: OFFERED + 1])
    models = [(f"{row.owner.slug}/{row.name}",) * 2 for row in rows]
    owners = list(member_owners(user, Role.MEMBER)[:OFFERED])
    needs = known_needs(version)
    judges = {need.name for need in needs if need.kind is NeedKind.JUDGE}
    judges |= {name.removeprefix(JUDGE) for name in texts if name.startswith(JUDGE)}
    more = _more(make)
    return {
        "error": error,
        "chosen": version,
        "version_field": make.field(
            "version", "Version", value=version.version, kind="select", options=_versions(versions, version)
        ),
        "main": _main(make, models, owners, acting),
        **_replay(user, texts),
        "arguments": make.arguments(inputs),
        "judges": make.judges(sorted(judges), models),
        "secrets": _secrets(acting, needs, texts),
        "secrets_error": errors.get("secrets", ""),
        "more": more,
        "more_open": any(field.error for field in more),
    }


def _replay(user: User, texts: dict[str, str]) -> dict[str, Any]:
    """Return what the form replays, and the rollout it refers to. Raises NotFound."""
    try:
        replay = replay_of(texts)
    except Invalid:  # the page already shows this error
        replay = None
    return {"replay": replay, "replay_of": find_origin(user, replay) if replay else None}


def _versions(versions: list[Version], chosen: Version) -> list[tuple[str, str]]:
    shown = [row for row in versions if not row.yanked or row.pk == chosen.pk]
    ready = VersionState.READY.value
    found = [(row.version, row.version if row.state == ready else f"{row.version} ({row.state})") for row in shown]
    return found if any(row.pk == chosen.pk for row in shown) else [(chosen.version, chosen.version), *found]


def _main(make: Maker, models: list[tuple[str, str]], owners: list[Owner], acting: Owner) -> list[Field]:
    model = make.texts.get("model", "")
    few = len(models) <= OFFERED
    offered = models if not few or model in dict(models) else [(model, model or "choose a model"), *models]
    fields = [
        make.field("model", "Model", kind="select" if few else "text", options=offered, required=True),
        *([] if make.texts.get(REPLAY) else [make.number("num_examples", "Examples", step="1", help="-1 means all")]),
        make.number("rollouts_per_example", "Rollouts per example", step="1"),
        make.number("temperature", "Temperature", step="any", help="default: the environment's or the model's"),
        make.number(
            "max_tokens", "Maximum tokens per answer", step="1", help="default: the environment's or the model's"
        ),
        make.field(
            "visibility",
            "Visibility",
            kind="select",
            options=[("", "automatic"), ("private", "private"), ("public", "public")],
            help="automatic: public if its environment and model are",
        ),
    ]
    if len(owners) > 1 or acting not in owners:
        slugs = [row.slug for row in owners] if acting in owners else [acting.slug, *(row.slug for row in owners)]
        fields.insert(
            1, make.field("owner", "Owner", value=acting.slug, kind="select", options=[(slug, slug) for slug in slugs])
        )
    return fields


def _secrets(acting: Owner, needs: tuple[Need, ...], texts: dict[str, str]) -> list[dict[str, Any]]:
    """Return the owner's secrets and those that the version needs."""
    there = set(secrets_of(acting).values_list("name", flat=True)[:OFFERED])
    needed = {need.name for need in needs if need.kind is NeedKind.SECRET}
    ticked = {name.removeprefix(SECRET) for name in texts if name.startswith(SECRET)}
    return [
        {
            "name": SECRET + name,
            "label": name,
            "there": name in there,
            "needed": name in needed,
            "ticked": name in ticked,
        }
        for name in sorted(there | needed | ticked)
    ]


def _more(make: Maker) -> list[Field]:
    return [
        make.field("name", "Name", help="shown in the list of evaluations"),
        make.field("split", "Split", kind="select", options=[("eval", "eval"), ("train", "train")]),
        make.number("seed", "Seed", step="1", help="passed to the sampler"),
        make.number("timeout_s", "Time limit per rollout in seconds", step="any"),
        make.number("concurrency", "Concurrent rollouts", step="1"),
        make.number("max_retries", "Retries after infrastructure failures", step="1"),
        make.field("allow_hosts", "Hosts that the sandbox may reach", help="host:port, separated by spaces"),
        make.field("state_columns", "State columns to keep", help="names, separated by spaces"),
        make.field("sampling", "Other sampling parameters", kind="json", help='a JSON object: {"top_p": 0.9}'),
        make.field("env_args", "Other arguments", kind="json", help="a JSON object for load_environment"),
        make.field("taskset", "Other taskset settings", kind="json", help="a JSON object"),
        make.field("harness", "Other harness settings", kind="json", help="a JSON object"),
    ]


def _preview(
    user: User, acting: Owner, version: Version, config: EvaluationConfig | None, error: HubError | None
) -> dict[str, Any]:
    """Return the part of the page that follows the typing."""
    if config is None:
        return {
            "unreadable": [name.removeprefix(ARGUMENT) for name in sorted(error.fields)] if error else [],
            "obstacles": [],
            "command": "",
        }
    size = ((version.describe or {}).get("splits") or {}).get(config.split) or {}
    examples = size.get("size") if isinstance(size, dict) else None
    wanted = config.num_examples if config.num_examples >= 0 else examples
    count = min(wanted, examples) if wanted is not None and isinstance(examples, int) else wanted
    count = 1 if config.replay else count
    return {
        "obstacles": obstacles(user=user, owner=acting, version=version, config=config, now=clock.now()),
        "command": command_of(config, team=acting.slug if acting.slug != user.username else ""),
        "planned": count * config.rollouts_per_example if count is not None else None,
        "being_made": config.model == f"{SYSTEM_OWNER}/{TINY}" and is_tiny_being_made(),
    }
