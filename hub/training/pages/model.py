"""The page of one model: for an adapter with its base, its training run and the scores of both, and how to call it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe
from envhub.protocol.evals.evaluations import EvaluationView
from envhub.protocol.evals.measured import in_words
from envhub.protocol.models.catalog import ModelSource
from envhub.protocol.models.deployments import DRAIN_SECONDS
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.training.command import evaluation_flags

from hub.accounts.models import Role
from hub.accounts.queries import Caller, has_role, inside_owners
from hub.catalog.capacity import capacity_now
from hub.catalog.models import Model
from hub.catalog.queries import visible_models
from hub.catalog.wire import model_view
from hub.core.errors import NotFound
from hub.core.pages import page, show
from hub.evals.boards import examples_of
from hub.evals.hidden_values import shown_outside
from hub.evals.models import Evaluation
from hub.evals.queries import visible_evaluations
from hub.evals.wire import evaluation_view
from hub.runs.models import Run
from hub.training.evaluated import Evaluated, evaluated
from hub.training.models import Adapter, TrainingRun
from hub.training.queries import evaluation_points, visible_training
from hub.training.wire import adapter_view

MOST_COMPARED = 100  # evaluations that are considered, newest first


@dataclass(frozen=True)
class Measured:
    """The newest evaluations of the model and its base in the same settings; one of them may be missing."""

    environment: str
    version: str
    settings: str  # examples, arguments and sampling, in words
    own: EvaluationView | None
    base: EvaluationView | None

    @property
    def difference(self) -> float | None:
        """The model's mean reward minus the base's."""
        own, base = (view.summary.reward if view else None for view in (self.own, self.base))
        return own.mean - base.mean if own and base else None


@page
@require_safe
def model_detail(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """Show one model that the user may call."""
    row = _found(request.user, owner, name)
    reference = f"{row.owner.slug}/{row.name}"
    adapter: Adapter | None = getattr(row, "adapter", None)
    training = _training(request.user, adapter)
    base = base_of(row, adapter)
    environments = environments_of(training)
    context = {
        "section": "models",
        "model": model_view(row, capacity_now(timezone.now()), inside=False),  # this page shows no endpoint
        "reference": reference,
        "adapter": adapter_view(adapter) if adapter else None,
        "training": training,
        "environments": environments,
        "evaluate": evaluate_command(training, environments, reference),
        "evaluate_base": evaluate_command(training, environments, base) if base else "",
        "evaluated": evaluated_at(training, adapter),
        "base": base,
        "base_row": row.base,
        "measured": measured(request.user, reference, base),
        "deployment": deployment_of(row) if row.source == ModelSource.LOCAL.value else None,
        "usage": usage_of(row, request.user),
        "may_download": row.source == ModelSource.LOCAL.value and bool(inside_owners(request.user, [row])),
    }
    context |= calls(str(settings.HUB.base_url).rstrip("/"), reference)
    return show(request, "training/model_detail.html", context)


def _found(user: Caller, owner: str, name: str) -> Model:
    """Return the model with its adapter and its deployment, in one query. Raises NotFound."""
    rows = visible_models(user).select_related("owner", "base__owner", "adapter", "deployment")
    found = rows.filter(owner__slug=owner, name=name).first()
    if found is None:
        raise NotFound(f"no model {owner}/{name}", code="model_not_found")
    return found


def _training(user: Caller, adapter: Adapter | None) -> TrainingRun | None:
    """Return the run that made it, if the user may see that run."""
    if adapter is None or adapter.training_id is None:
        return None
    return visible_training(user).filter(pk=adapter.training_id).first()


def base_of(row: Model, adapter: Adapter | None) -> str:
    """Return the model it was trained from, as evaluations name it; "" if it was not trained here."""
    if row.base is not None:
        return f"{row.base.owner.slug}/{row.base.name}"
    named = adapter.base_name if adapter else ""
    return named if not named or "/" in named else f"{row.owner.slug}/{named}"


def evaluated_at(training: TrainingRun | None, adapter: Adapter | None) -> list[Evaluated]:
    """Return the run's own evaluations of these weights."""
    if training is None or adapter is None:
        return []
    return evaluated(training, evaluation_points(training, first=adapter.step, last=adapter.step))


def environments_of(training: TrainingRun | None) -> list[str]:
    """Return owner/name of the environments that the run uses."""
    rows = training.versions.all() if training else ()
    found = (f"{item.version.environment.owner.slug}/{item.version.environment.name}" for item in rows)
    return list(dict.fromkeys(found))


def evaluate_command(training: TrainingRun | None, environments: list[str], model: str) -> str:
    """Return the command that evaluates `model` like its training, or a template without a training run."""
    flags = evaluation_flags(shown_outside(training.config)) if training else ""
    return f"hub eval run {environments[0] if environments else 'OWNER/NAME'} -n 50 -r 4 -m {model} {flags}".rstrip()


def measured(user: Caller, reference: str, base: str) -> list[Measured]:
    """Return one row per board, because other settings make another score: those with both first, then the newest."""
    names = [name for name in (reference, base) if name]
    # Replays have no board.
    rows = visible_evaluations(user).filter(model_name__in=names).exclude(board="")[:MOST_COMPARED]
    boards: dict[str, dict[str, Evaluation]] = {}
    for row in rows:
        boards.setdefault(row.board, {}).setdefault(row.model_name, row)
    found = [_measured(own, reference, base) for own in boards.values()]
    return sorted(found, key=lambda item: item.difference is None)


def _measured(board: dict[str, Evaluation], reference: str, base: str) -> Measured:
    """Return a board's row. `board`: the evaluations by model, at least one."""
    views = {model: evaluation_view(row) for model, row in board.items()}
    row, view = next(iter(board.values())), next(iter(views.values()))
    count = examples_of(row)
    examples = "all examples" if count is None else f"{count} example{'s'[: count != 1]}"
    settings_in_words = " · ".join((examples, *in_words(view.config)))
    return Measured(
        view.environment,
        view.version or "",
        settings_in_words,
        own=views.get(reference),
        base=views.get(base) if base else None,
    )


def deployment_of(row: Model) -> dict[str, Any] | None:
    """Return the newest run that serves the model; None if it was never served."""
    runs = Run.objects.filter(owner=row.owner, kind=RunKind.SERVE.value, subject=f"{row.owner.slug}/{row.name}")
    run = runs.order_by("-pk").first()
    if run is None:
        return None
    return {"run": run, "state": RunState(run.state), "drain_minutes": round(DRAIN_SECONDS / 60)}


def usage_of(row: Model, user: Caller) -> Any:
    """Return the deployment, which counts the model's calls, for users who also see it in `hub deploy list`."""
    found = getattr(row, "deployment", None)  # by name: hub.inference is not below this app
    return found if found is not None and has_role(user, row.owner, Role.READER) else None


def calls(hub_url: str, reference: str) -> dict[str, str]:
    """Return examples of calling it, by curl and with OpenAI's SDK."""
    body = json.dumps({"model": reference, "messages": [{"role": "user", "content": "Hello"}]})
    curl = f"""curl {hub_url}/inference/v1/chat/completions \\
  -H "Authorization: Bearer $HUB_TOKEN" -H "Content-Type: application/json" \\
  -d '{body}'"""
    python = f"""import os
from openai import OpenAI

client = OpenAI(base_url="{hub_url}/inference/v1", api_key=os.environ["HUB_TOKEN"])
reply = client.chat.completions.create(
    model="{reference}",
    messages=[{{"role": "user", "content": "Hello"}}],
)
print(reply.choices[0].message.content)"""
    return {"curl": curl, "python": python}
