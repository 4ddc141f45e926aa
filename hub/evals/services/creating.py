"""Starts hosted evaluations. Everything that can be refused is refused here, before a worker is occupied."""

from __future__ import annotations

import json

from django.db import transaction
from envhub.protocol.base import Json, JsonObject
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationSource
from envhub.protocol.placing.abilities import REPLAY, REPLAY_TRAINING
from envhub.protocol.registry.needs import CheckSettings
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.catalog.capacity import engine_need
from hub.catalog.models import Model
from hub.catalog.queries import get_model
from hub.core.database_json import storable
from hub.core.errors import Invalid
from hub.core.ids import new_id
from hub.core.needs import Borrower
from hub.core.stored_config import read_stored_config
from hub.evals.models import Evaluation
from hub.evals.prices import prices_now
from hub.evals.replays import Origin, find_replayed
from hub.evals.work import Work
from hub.registry.models import Environment, Version
from hub.registry.queries import get_version
from hub.registry.readiness import require_runnable
from hub.registry.row_images import ChosenRows
from hub.registry.services.environments import count_evaluations
from hub.runs.box_hosts import check_hosts
from hub.runs.engines import EngineNeed
from hub.runs.models import Run
from hub.runs.services import create_run
from hub.secrets.services import reveal_for_run

CONFIG_LIMIT = 64 * 1024  # bytes as JSON; every row of a list carries its configuration


def create_evaluation(*, user: User, owner: Owner, config: EvaluationConfig) -> Evaluation:
    """Queue a hosted evaluation for `owner`.

    Raises NotFound (environment, version or model absent or hidden), Conflict (the version is not ready, or needs
    something that `config` does not provide), NotAllowed (role), Invalid (anything else wrong in `config`). For a
    replay, also raises what find_replayed does.
    """
    require_role(user, owner, Role.MEMBER)
    version = get_version(user, config.environment)
    require_runnable(version, brought_by(config), Borrower(owner.pk, user), rows=rows_of(config))
    origin = None
    if config.replay is not None:
        origin = find_replayed(user, config.replay, version.environment)
        config = config.model_copy(update={"replay": origin.replay, "num_examples": 1})
    stored_config = storable_settings("configuration", config.model_dump(mode="json"))
    models = [get_model(user, reference) for reference in (config.model, *config.judges.values())]
    _check_grants(owner, config)
    planned = plan(version, config)
    visibility = config.visibility or _inherited(version.environment, *models, *([origin] if origin else []))
    with transaction.atomic():
        evaluation = Evaluation(
            id=new_id(),
            owner=owner,
            environment=version.environment,
            version=version,
            model_name=config.model,
            name=storable(config.name)[:200],
            source=EvaluationSource.HOSTED.value,
            state=RunState.QUEUED.value,
            visibility=visibility.value,
            config=stored_config,
            planned=planned,
            work=Work.first(config).model_dump(mode="json"),
            prices=prices_now(models[0], models[1:]),
            replay_of=origin.whole if origin else None,
            created_by=user,
        )
        evaluation.run = queue_run(evaluation, user, config)
        evaluation.save(force_insert=True)
        count_evaluation(evaluation, 1)
    return evaluation


def count_evaluation(row: Evaluation, change: int, *, visibility: str = "") -> None:
    """Update the counts that lists of environments show, when an evaluation is added (1) or removed (-1).

    If a transaction also ranks the evaluation, it must do so first: all writers take these locks in the same order.
    """
    count_evaluations(
        environment_id=row.environment_id,
        owner_id=row.owner_id,
        visibility=visibility or row.visibility,
        change=change,
    )


def brought_by(config: EvaluationConfig) -> CheckSettings:
    """Return what an evaluation grants and gives to its environment."""
    fields = config.model_dump(include=set(CheckSettings.model_fields))
    return CheckSettings.model_construct(**fields)


def rows_of(config: EvaluationConfig) -> ChosenRows | None:
    """Return which rows of its environment an evaluation runs; None for a replay, whose row has run before."""
    return None if config.replay is not None else ChosenRows(config.split, config.num_examples)


def storable_settings(what: str, value: JsonObject) -> Json:
    """Return `value` as the database stores it. Raises Invalid, naming it as `what`, if it is too large for a row."""
    size = len(json.dumps(value))
    if size > CONFIG_LIMIT:
        raise Invalid(
            f"the {what} has {size} bytes as JSON, more than {CONFIG_LIMIT}",
            code="settings_too_large",
            hint="keep data in the environment's package or data set, and refer to it by name here",
        )
    return storable(value)


def stored_config(evaluation: Evaluation) -> EvaluationConfig:
    """Return the configuration of an evaluation that is about to run. Raises Invalid if today's rules refuse it."""
    what, hint = "the evaluation's configuration", "start a new evaluation"
    return read_stored_config(EvaluationConfig, evaluation.config, what=what, hint=hint)


def queue_run(evaluation: Evaluation, user: User, config: EvaluationConfig) -> Run:
    """Create a run that works on the evaluation as configured, linked to the run that it continues, if any."""
    version = evaluation.version
    assert version is not None  # hosted evaluations have one
    environment = evaluation.environment
    return create_run(
        kind=RunKind.EVAL,
        owner=evaluation.owner,
        created_by=user,
        subject=f"{environment.owner.slug}/{environment.name}@{version.version} on {evaluation.model_name}",
        subject_url=f"/evaluations/{evaluation.pk}",
        after=evaluation.run,
        ability=ability_for(config),
        engine=engine_for(user, evaluation.owner, config),
    )


def engine_for(user: User, owner: Owner, config: EvaluationConfig) -> EngineNeed:
    """Return the engines that the run needs for its models, as far as the hub serves them itself."""
    asked = dict.fromkeys((config.model, *config.judges.values()))
    return engine_need(get_model(user, reference, owner_id=owner.pk) for reference in asked)


def ability_for(config: EvaluationConfig) -> str:
    """Return the ability that the evaluation's worker needs and not every worker has, or ""."""
    if config.replay is None:
        return ""
    return REPLAY_TRAINING if config.replay.training else REPLAY


def plan(version: Version, config: EvaluationConfig) -> int:
    """Return how many rollouts are planned, according to the version's description; 0 if unknown. Raises Invalid."""
    if config.num_examples == 0:
        raise Invalid("num_examples is 0: nothing to do", hint="-1 means all", fields={"num_examples": "0"})
    if config.replay is not None:
        return config.rollouts_per_example
    splits = (version.describe or {}).get("splits") or {}
    size = (splits.get(config.split) or {}).get("size")
    wanted = config.num_examples if config.num_examples > 0 else size or 0
    return (min(wanted, size) if size else wanted) * config.rollouts_per_example


def _check_grants(owner: Owner, config: EvaluationConfig) -> None:
    reveal_for_run(owner, config.secrets)  # raises Invalid naming those that do not exist
    check_hosts(config.allow_hosts)


def _inherited(*shown: Environment | Model | Origin) -> Visibility:
    """Return public only if everything that the rollouts show is public."""
    return Visibility.PUBLIC if {one.visibility for one in shown} == {Visibility.PUBLIC.value} else Visibility.PRIVATE
