"""`prime train FILE.toml` (`prime rl run`), and `prime train list|get|logs|metrics|rollouts|progress|stop|...`."""

from __future__ import annotations

from django.db.models import Exists, OuterRef
from django.http import HttpResponse, HttpResponseBase
from django.utils import timezone
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import JsonObject
from envhub.protocol.training.log import ALL, ENGINE, LEARNER, RUN, LogLine
from envhub.protocol.training.metrics import StepMetrics
from rest_framework.request import Request

from hub.accounts.models import Role, User
from hub.accounts.permissions import check_read, require_scope
from hub.accounts.queries import require_role
from hub.catalog.capacity import capacity_now
from hub.catalog.queries import visible_models
from hub.compat.answers import MOST_COUNTED, MOST_ROWS, answered, body, client_view, counted, number, printable
from hub.compat.names import acting_owner
from hub.compat.services.training import start_training
from hub.compat.training_wire import (
    DISTRIBUTIONS,
    bins,
    checkpoint_objects,
    last_change,
    model_objects,
    run_objects,
    sample_objects,
)
from hub.core.errors import Invalid, NotFound
from hub.core.ids import GivenId
from hub.training.log_lines import LEVELS, MOST_LINES, log_lines
from hub.training.models import Step, StepSegment, TrainingRun
from hub.training.queries import (
    checkpoints_of,
    filter_rollouts,
    get_step,
    get_training,
    list_training,
    metrics_of,
    steps_after,
)
from hub.training.services import delete_training, resume_training, stop_training
from hub.training.wire import processes_of, training_view

_MOST_STEPS = 1000  # per response
_WHOLE_S = 86_400  # the longest time that the clients ask for (--all)
_COMPONENTS = {"": ALL, "orchestrator": RUN, "trainer": LEARNER, "inference": ENGINE}


@client_view("GET")
def model_list(request: Request) -> HttpResponseBase:
    """Return the newest models of the catalog that can be trained; Hugging Face names are accepted as well."""
    user = require_scope(request, Scope.READ)
    rows = visible_models(user).filter(trainable=True)[:MOST_ROWS]
    return answered({"models": model_objects(rows, capacity_now(timezone.now()))})


@client_view("GET", "POST")
def run_list(request: Request) -> HttpResponseBase:
    """List the runs of the caller or a team, newest first (GET), or start one (POST)."""
    if request.method == "POST":
        user = require_scope(request, Scope.WRITE)
        given = body(request)
        made, notice = start_training(user=user, owner=acting_owner(user, given), given=given)
        return _one(user, made.pk, status=201, notice=printable(notice) or None)
    user = require_scope(request, Scope.READ)
    rows = list_training(user, owner=acting_owner(user, request.query_params.dict()).slug)
    if request.query_params.get("mine") == "true":
        rows = rows.filter(created_by=user)
    page, limit = _page(request, 20)
    shown, total = list(rows[(page - 1) * limit : page * limit]), counted(rows)
    told = {"total": total, "page": page, "limit": limit, "total_pages": -(-total // limit)}
    return answered({"runs": run_objects(shown, now=timezone.now()), **told})


def _page(request: Request, size: int) -> tuple[int, int]:
    limit = max(1, number(request, "limit", size, most=MOST_ROWS))
    return max(1, number(request, "page", 1, most=MOST_COUNTED // limit)), limit


def _one(user: User, training_id: GivenId, *, status: int = 200, **more: str | None) -> HttpResponse:
    (shown,) = run_objects([get_training(user, training_id)], now=timezone.now())
    return answered({"run": shown | more}, status=status)


@client_view("GET", "DELETE")
def run(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return one run (GET), or delete one that has ended (DELETE)."""
    if request.method == "DELETE":
        user = require_scope(request, Scope.WRITE)
        delete_training(user=user, training=get_training(user, training_id))
        return answered({"success": True})
    found = _readable(request, training_id)
    (shown,) = run_objects([found], now=timezone.now())
    return answered({"run": shown})


def _readable(request: Request, training_id: GivenId) -> TrainingRun:
    check_read(request)
    return get_training(request.user, training_id)


@client_view("PUT")
def run_stop(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Ask a run to stop; existing checkpoints and adapters stay."""
    user = require_scope(request, Scope.WRITE)
    stop_training(user=user, training=get_training(user, training_id))
    return _one(user, training_id)


@client_view("PUT")
def run_restart(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Continue a stopped or failed run from its newest checkpoint."""
    user = require_scope(request, Scope.WRITE)
    resume_training(user=user, training=get_training(user, training_id))
    return _one(user, training_id)


@client_view("GET")
def run_logs(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return the newest lines of the current attempt, optionally of one component, to members of the owner."""
    return _log(request, training_id)


@client_view("GET")
def run_environment_logs(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return the newest lines of one environment: `prime train logs RUN --env NAME/0`."""
    if request.query_params.get("env_index", "0") != "0":
        raise NotFound("an environment of a run has one server here", hint="give its name alone: --env NAME")
    return _log(request, training_id)


def _log(request: Request, training_id: GivenId) -> HttpResponse:
    user = require_scope(request, Scope.READ)
    found = get_training(user, training_id)
    require_role(user, found.owner, Role.READER)
    query, labels = request.query_params, processes_of(found)
    process, level = _process(request, labels), _level(query.get("level", ""))
    text, tail = query.get("search", "")[:200], max(1, number(request, "tail_lines", 1000, most=MOST_LINES))
    _check_filters(request, found)
    if found.run is None:
        return answered({"logs": ""})
    part = log_lines(found.run.pk, found.run.attempt, labels, process=process, text=text, level=level)
    return answered({"logs": "\n".join(_said(line) for line in part.lines[-tail:])})


def _level(given: str) -> str:
    if given and given.upper() not in LEVELS:
        raise Invalid(f"level is one of {', '.join(LEVELS)}", fields={"level": given[:100]})
    return given.upper()


def _check_filters(request: Request, training: TrainingRun) -> None:
    """Raises Invalid for a pattern, which could keep the hub busy forever, and for a time within the log, whose lines
    have none. What covers the whole run (--all) leaves nothing out."""
    if request.query_params.get("regex", "").lower() in ("true", "1"):
        hint = "use --search TEXT, or search yourself: `prime train logs RUN --all --raw | grep -E PATTERN`"
        raise Invalid("regex is not taken by this hub", hint=hint)
    seconds = number(request, "since_seconds", _WHOLE_S, most=_WHOLE_S)
    began = training.run.started_at if training.run else None
    if seconds < _WHOLE_S and began is not None and (timezone.now() - began).total_seconds() > seconds:
        hint = "--tail N shows the newest lines, --all as many as possible"
        raise Invalid("the lines of a log here have no time, and the run began before it", hint=hint)


def _process(request: Request, labels: tuple[str, ...]) -> str:
    """Return the process whose lines are requested. Raises Invalid."""
    name, component = request.query_params.get("env_name", ""), request.query_params.get("component", "")
    if name or component == "env-server":
        if name not in labels:
            raise Invalid(f"the run's environments are called {', '.join(labels)}", fields={"env_name": name[:100]})
        return name
    if component not in _COMPONENTS:
        known = ", ".join(filter(None, _COMPONENTS))
        raise Invalid(f"component is one of {known}", fields={"component": component[:100]})
    return _COMPONENTS[component]


def _said(line: LogLine) -> str:
    """Return a line as in the log, escaped for the client's terminal library."""
    return printable(line.text if line.process in (RUN, ENGINE) else f"{line.process}: {line.text}")


@client_view("GET")
def run_components(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return the environments of a run, whose log lines can be requested."""
    found = _readable(request, training_id)
    (shown,) = run_objects([found], now=timezone.now())
    named = [{"env_name": label, "env_index": 0, "pod_name": label} for label in processes_of(found)]
    return answered({"env_servers": [one | {"status": shown["status"]} for one in named]})


@client_view("GET")
def run_metrics(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return the steps in order, each with the evaluations that followed it."""
    found = _readable(request, training_id)
    rows = steps_after(found, max(0, number(request, "min_step", 0, most=2**31 - 1) - 1))
    if "max_step" in request.query_params:
        rows = rows.filter(step__lte=number(request, "max_step", 0, most=2**31 - 1))
    shown = metrics_of(found, rows[: number(request, "limit", _MOST_STEPS, most=_MOST_STEPS)])
    return answered({"metrics": [one.model_dump(mode="json", exclude_none=True) for one in shown]})


@client_view("GET")
def run_samples(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return a page of the rollouts of one step."""
    found = _readable(request, training_id)
    page, limit = _page(request, MOST_ROWS)
    step = get_step(found, _step(request))
    if step is None:
        return answered({"run_id": str(found.pk), "samples": [], "total": 0, "page": 1, "limit": limit})
    rows = filter_rollouts(step, of=found)
    total = counted(rows)
    shown = rows.select_related("step", "segment").order_by("index")[(page - 1) * limit : page * limit]
    told = {"total": total, "page": page, "limit": limit, "total_pages": -(-total // limit)}
    return answered({"run_id": str(found.pk), "samples": sample_objects(shown), **told})


def _step(request: Request) -> int | None:
    return number(request, "step", 0, most=2**31 - 1) if request.query_params.get("step") else None


@client_view("GET")
def run_progress(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return the progress, and which of the newest steps have rollouts and distributions, oldest first."""
    found = _readable(request, training_id)
    stored = Exists(StepSegment.objects.filter(step=OuterRef("pk")))
    rows = Step.objects.filter(training=found).annotate(stored=stored).order_by("-step")
    steps = list(reversed(rows.values_list("step", "stored")[:_MOST_STEPS]))
    told: JsonObject = {
        "latestStep": found.step,
        "stepsWithSamples": [step for step, has_rollouts in steps if has_rollouts],
        "stepsWithDistributions": [step for step, _ in steps],
        "lastUpdatedAt": last_change(training_view(found, {})).isoformat(),
    }
    return answered(told)


@client_view("GET")
def run_distributions(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return the histograms of one step, by default of the newest."""
    found = _readable(request, training_id)
    wanted = request.query_params.get("type", "")
    if wanted and wanted not in DISTRIBUTIONS:
        raise Invalid(f"type is {' or '.join(DISTRIBUTIONS)}", fields={"type": wanted[:100]})
    step = get_step(found, _step(request))
    if step is None:
        return answered({"bins": [], "step": None})
    return answered({"bins": bins(StepMetrics.model_validate(step.metrics), wanted), "step": step.step})


@client_view("GET")
def run_checkpoints(request: Request, training_id: GivenId) -> HttpResponseBase:
    """Return the stored checkpoints, newest first; all of them are ready."""
    found = _readable(request, training_id)
    rows = checkpoints_of(found)[:MOST_ROWS]
    wanted = request.query_params.get("status_filter", "").upper()
    return answered({"checkpoints": checkpoint_objects(rows) if wanted in ("", "READY") else []})
