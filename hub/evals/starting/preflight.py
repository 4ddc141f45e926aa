"""Checks what stands in the way of an evaluation before it is started, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.models.catalog import ModelSource
from envhub.protocol.registry.needs import Need, NeedKind, hint_for
from envhub.protocol.runs import RunKind, RunState

from hub.accounts.models import Owner, User
from hub.catalog.capacity import capacity_now
from hub.catalog.queries import get_model
from hub.core.errors import HubError
from hub.core.needs import Borrower
from hub.evals.services.creating import ability_for, brought_by, rows_of
from hub.registry.models import Version
from hub.registry.readiness import reference_of, require_ready, require_runnable, unmet_needs
from hub.runs.kinds import spec_of
from hub.runs.models import Run
from hub.runs.placing.waiting import Cause, reasons_of
from hub.secrets.services import names_of

_HELD_UP = {Cause.NO_WORKER, Cause.OLD_WORKERS, Cause.CLOSED}
_FORM = {
    NeedKind.SECRET: "tick it above",
    NeedKind.ARGUMENT: "give it a value above, or among the further arguments under More settings",
    NeedKind.HOST: "add it to the hosts under More settings",
    NeedKind.JUDGE: "choose a model above",
}


@dataclass(frozen=True)
class Obstacle:
    """One obstacle: `words` say what it is, `todo` what to do about it, `place` what `link` leads to."""

    words: str
    todo: str = ""
    link: str = ""
    place: str = ""


def obstacles(*, user: User, owner: Owner, version: Version, config: EvaluationConfig, now: datetime) -> list[Obstacle]:
    """Return all obstacles known before the evaluation is started; the service has the last word."""
    return [
        *_of_version(version, config, Borrower(owner.pk, user)),
        *_of_secrets(owner, config),
        *_of_models(user, config, now),
        *_of_workers(user, owner, config, now),
    ]


def _of_version(version: Version, config: EvaluationConfig, borrower: Borrower) -> list[Obstacle]:
    address = reverse("version", args=[version.environment.owner.slug, version.environment.name, version.version])
    given = brought_by(config)
    try:
        require_ready(version)
        if lacking := unmet_needs(version, given):
            return [_unmet(need, reference_of(version), address) for need in lacking]
        require_runnable(version, given, borrower, rows=rows_of(config))
    except HubError as error:
        return [Obstacle(error.message, error.hint, address, "Open the version")]
    return []


def _unmet(need: Need, reference: str, address: str) -> Obstacle:
    todo = _FORM.get(need.kind)
    return Obstacle(
        f"It needs {need.words}", todo or hint_for(need, reference), "" if todo else f"{address}#needs", "What it needs"
    )


def _of_secrets(owner: Owner, config: EvaluationConfig) -> list[Obstacle]:
    missing = set(config.secrets) - set(names_of(owner, config.secrets))
    where = f"{reverse('secrets')}?owner={owner.slug}"
    return [
        Obstacle(f"{owner.slug} has no secret {name}", "store it first", where, "Secrets") for name in sorted(missing)
    ]


def _of_models(user: User, config: EvaluationConfig, now: datetime) -> list[Obstacle]:
    found: list[Obstacle] = []
    for reference in dict.fromkeys((config.model, *config.judges.values())):
        try:
            model = get_model(user, reference)
        except HubError as error:
            if error.code == "model_being_made" and reference == config.model:
                continue  # the page shows this by itself and keeps it up to date
            found.append(Obstacle(error.message, error.hint, reverse("models"), "Models"))
            continue
        if model.source == ModelSource.LOCAL.value and not capacity_now(now).serves(model):
            words = f"No worker that serves {reference} (engine {model.engine}) is online"
            found.append(_waits(words, user))
    return found


def _of_workers(user: User, owner: Owner, config: EvaluationConfig, now: datetime) -> list[Obstacle]:
    """Return what would hold up a run that is queued now."""
    kind, state = RunKind.EVAL, RunState.QUEUED
    queue, ability = spec_of(kind).queue, ability_for(config)
    run = Run(kind=kind.value, queue=queue, owner=owner, state=state.value, ability=ability)
    reason = reasons_of([run], now=now)[run.pk]
    if reason.cause not in _HELD_UP:
        return []
    return [_waits(reason.words[:1].upper() + reason.words[1:], user)]


def _waits(words: str, user: User) -> Obstacle:
    if user.is_administrator:
        return Obstacle(words, "the evaluation waits until you start one", reverse("workers"), "Workers")
    return Obstacle(words, "the evaluation waits until an administrator starts one")
