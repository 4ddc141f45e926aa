"""Submits training runs. Everything that can be refused is refused here, before a worker is occupied."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from django.db import transaction
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.registry.needs import TOML_KEYS, CheckSettings
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.training.cluster_need import without_gpus
from envhub.protocol.training.config import TRAINER_SECRETS, TrainingConfig, alpha_of
from envhub.protocol.training.environment import EnvironmentTable, EvalEnvironment
from envhub.protocol.training.gpu_need import BadWish, engine_of, gpu_need
from envhub.protocol.training.runs import TrainingRequest
from envhub.protocol.training.toml import TrainingConfigError, read_training_request
from envhub.protocol.training.trainer import TrainingMode
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.catalog.capacity import GPU, VLLM, capacity_now, engine_need, is_small
from hub.catalog.models import Model
from hub.catalog.queries import get_model
from hub.core import clock
from hub.core.database_json import storable, storable_text
from hub.core.errors import Invalid
from hub.core.ids import new_id
from hub.core.needs import Borrower
from hub.core.stored_config import read_stored_config
from hub.registry.models import Version
from hub.registry.queries import get_version
from hub.registry.readiness import reference_of, require_runnable
from hub.registry.row_images import ChosenRows
from hub.runs.box_hosts import check_hosts
from hub.runs.engines import EngineNeed
from hub.runs.models import Run
from hub.runs.services import create_run
from hub.secrets.services import encrypt, reveal_for_run
from hub.training.models import Checkpoint, TrainingRun, TrainingVersion, Use
from hub.training.queries import get_checkpoint
from hub.training.services.adapter_fit import check_lora
from hub.training.services.exporting import check_exporters
from hub.training.services.policy_models import PolicyModel, find_policy_model, policy_shape

MAX_ENV_BYTES = 262_144


def create_training(*, user: User, owner: Owner, request: TrainingRequest) -> TrainingRun:
    """Queue a training run for `owner`.

    Raises Invalid (the configuration, with `fields` by TOML path; a missing secret; a refused host), NotFound
    (environment, version, model or checkpoint absent or hidden), Conflict (a version is not ready, or needs something
    that the configuration does not provide), NotAllowed.
    """
    require_role(user, owner, Role.MEMBER)
    config = read_config(request)
    versions = check_grants(user=user, owner=owner, config=config, request=request)
    trainer = config.trainer
    policy = find_policy_model(user=user, owner=owner, config=config)
    training = TrainingRun(
        id=new_id(),
        owner=owner,
        name=storable_text(config.name),
        model_name=config.model,
        mode=trainer.mode.value,
        warm_start=_warm_start(user, config, policy),
        state=RunState.QUEUED.value,
        visibility=(request.visibility or Visibility.PRIVATE).value,
        config=storable(config.model_dump(mode="json")),
        toml=storable_text(request.toml),
        encrypted_env=encrypt(json.dumps(request.env)) if request.env else "",
        max_steps=config.max_steps,
        created_by=user,
        **policy.fields(),
    )
    place = place_of(training, config)
    names = [reference_of(version) for use, _, _, version in versions if use is Use.TRAIN]
    with transaction.atomic():
        # So that concurrent runs of a sweep find free names one after another.
        Owner.objects.select_for_update(no_key=True).get(pk=owner.pk)
        training.adapter_name = _adapter_name(owner, config)
        training.run = queue_run(training, user, config, names, place)
        training.save(force_insert=True)
        TrainingVersion.objects.bulk_create(
            TrainingVersion(training=training, use=use, position=place, label=table.label[:200], version=version)
            for use, place, table, version in versions
        )
    return training


def check_grants(
    *, user: User, owner: Owner, config: TrainingConfig, request: TrainingRequest
) -> list[tuple[Use, int, EnvironmentTable, Version]]:
    """Return the versions that a configuration names, after checking that they and all their grants may be used.

    Raises as create_training, except for the model and the checkpoint.
    """
    versions = [
        (use, place, table, get_version(user, own_reference(owner, table.reference)))
        for use, place, table in tables(config)
    ]
    for use, place, table, version in versions:
        check_runnable(version, config, use, place, table, Borrower(owner.pk, user), sent=request.env)
    _check_grants(user, owner, config, request)
    named = {name for _, _, table in tables(config) for name in table.secrets}
    check_exporters(config, granted={*config.secrets, *named, *request.env})
    return versions


def read_config(request: TrainingRequest) -> TrainingConfig:
    """Read the configuration of a request. Raises Invalid."""
    if sum(len(value) for value in request.env.values()) > MAX_ENV_BYTES:
        raise Invalid(f"the secrets of a run may have at most {MAX_ENV_BYTES} characters", fields={"env": "too large"})
    try:
        return read_training_request(request).config
    except TrainingConfigError as error:
        raise Invalid(error.message, fields=error.fields, hint="`hub train check FILE` shows the same") from error


def stored_config(training: TrainingRun) -> TrainingConfig:
    """Return the configuration of a run that is about to work. Raises Invalid if today's rules refuse it."""
    hint = "start a new run with a configuration that `hub train check` accepts"
    return read_stored_config(TrainingConfig, training.config, what="the run's configuration", hint=hint)


def tables(config: TrainingConfig) -> Iterator[tuple[Use, int, EnvironmentTable]]:
    """Yield (use, position, table) of every environment of a run."""
    for place, table in enumerate(config.env):
        yield Use.TRAIN, place, table
    for place, evaluated in enumerate(config.eval.env if config.eval else ()):
        yield Use.EVAL, place, evaluated


def queue_run(
    training: TrainingRun, user: User, config: TrainingConfig, environments: list[str], place: tuple[str, GpuNeed]
) -> Run:
    """Create a run that works on the training run at its `place_of`, linked to the run that it continues, if any."""
    queue, gpus = place
    name = f"{training.name}: " if training.name else ""
    return create_run(
        kind=RunKind.TRAIN,
        owner=training.owner,
        created_by=user,
        subject=f"{name}{training.model_name} on {', '.join(dict.fromkeys(environments))}",
        subject_url=f"/training/{training.pk}",
        queue=queue,
        gpus=gpus,
        after=training.run,
        engine=engine_for(user, training, config),
    )


def engine_for(user: User, training: TrainingRun, config: TrainingConfig) -> EngineNeed:
    """Return the engine for the policy and the hub's own judges; the policy's memory is requested as GPUs."""
    judges = {reference for _, _, table in tables(config) for reference in table.judges.values()}
    need = engine_need(get_model(user, reference, owner_id=training.owner_id) for reference in judges)
    if need.engine or engine_of(config.trainer, training.engine) != VLLM:
        return need
    return EngineNeed(VLLM)


def place_of(training: TrainingRun, config: TrainingConfig) -> tuple[str, GpuNeed]:
    """Return the queue: `gpu`, with its needs, or `train`. Small models need no GPU, and use one only on request.

    Reads the model's files in the storage, so call it before anything is locked. Raises Invalid if the GPUs cannot be
    provided as requested.
    """
    wished = bool(config.trainer.train_gpus or config.trainer.engine_gpus)
    if not wished and is_small(training.parameters):
        hosts = config.trainer.hosts
        need = without_gpus(hosts) if hosts > 1 else GpuNeed()
        return capacity_now(clock.now()).training_queue(training.parameters), need
    try:
        return GPU, gpu_need(config, policy_shape(training), engine_of(config.trainer, training.engine))
    except BadWish as error:
        raise Invalid(str(error), fields={error.field: str(error)}) from error


def own_reference(owner: Owner, reference: str) -> str:
    """Complete a bare name, which means an environment of the run's owner."""
    return reference if "/" in reference.partition("@")[0] else f"{owner.slug}/{reference}"


def check_runnable(
    version: Version,
    config: TrainingConfig,
    use: Use,
    place: int,
    table: EnvironmentTable,
    borrower: Borrower,
    *,
    sent: Iterable[str],
) -> None:
    """Raises Conflict if a version cannot run with what its table, the run and `sent` secrets provide."""
    brought = CheckSettings.model_construct(
        env_args=table.args,
        taskset=table.taskset,
        harness=table.harness,
        secrets=tuple({*config.secrets_of(table), *sent} - TRAINER_SECRETS),
        judges=table.judges,
        allow_hosts=(*config.allow_hosts, *table.allow_hosts),
    )
    at = f"env[{place}]" if use is Use.TRAIN else f"eval.env[{place}]"
    rows = ChosenRows(table.split or ("train" if use is Use.TRAIN else "eval"), _number_of(config, table))
    require_runnable(version, brought, borrower, {kind: f"{at}.{key}" for kind, key in TOML_KEYS.items()}, rows)


def _number_of(config: TrainingConfig, table: EnvironmentTable) -> int:
    """Return how many rows of an environment are used, from the first; -1: all."""
    if config.eval is None or not isinstance(table, EvalEnvironment):
        return -1
    return config.eval.num_examples if table.num_examples is None else table.num_examples


def _check_grants(user: User, owner: Owner, config: TrainingConfig, request: TrainingRequest) -> None:
    every = [table for _, _, table in tables(config)]
    names = {*config.secrets, *(name for table in every for name in table.secrets)}
    reveal_for_run(owner, names - request.env.keys())  # raises Invalid naming those that do not exist
    check_hosts([*config.allow_hosts, *(host for table in every for host in table.allow_hosts)])
    for table in every:
        for reference in table.judges.values():
            get_model(user, reference)


def _warm_start(user: User, config: TrainingConfig, policy: PolicyModel) -> Checkpoint | None:
    if config.checkpoint_id is None:
        return None
    found = get_checkpoint(user, config.checkpoint_id)
    if found.training.mode != config.trainer.mode.value or found.training.model_name != config.model:
        raise Invalid(
            f"the checkpoint is of {found.training.model_name} trained with mode {found.training.mode}",
            hint="give the same model and [trainer] mode",
            fields={"checkpoint_id": config.checkpoint_id},
        )
    if config.trainer.mode is TrainingMode.LORA:
        if found.training.model_digest not in ("", policy.fields()["model_digest"]):
            raise Invalid(
                f"the checkpoint belongs to files of {config.model} that have been replaced since",
                hint="start without checkpoint_id",
                fields={"checkpoint_id": config.checkpoint_id},
            )
        made = found.training.config
        check_lora(config, of="the checkpoint", made=made["trainer"] | {"alpha": alpha_of(made)})
    return found


def _adapter_name(owner: Owner, config: TrainingConfig) -> str:
    """Return a name free in the catalog and among the owner's runs: the run's, or from model and environment."""
    wanted = config.name or f"{config.model.rpartition('/')[2]}-{config.env[0].label}"
    plain = re.sub(r"[^a-z0-9._-]+", "-", wanted.lower()).strip("-._")[:80].strip("-._") or "adapter"
    taken = {
        *TrainingRun.objects.filter(owner=owner, adapter_name__startswith=plain).values_list("adapter_name", flat=True),
        *Model.objects.filter(owner=owner, name__startswith=plain).values_list("name", flat=True),
    }
    number = 1
    while (name := plain if number == 1 else f"{plain}-{number}") in taken:
        number += 1
    return name
