"""Previews a training file before it is started: its errors, the resources it needs, and what would hold it up.

It makes no network requests: a model that is not in the catalog is looked up on start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.estimate import TrainingEstimate, estimate
from envhub.protocol.training.runs import TrainingRequest
from envhub.protocol.training.toml import ConfigProblem, TrainingConfigError, read_training_toml

from hub.accounts.models import Owner, User
from hub.catalog.queries import visible_models
from hub.core.errors import HubError
from hub.core.numbers import whole
from hub.core.sizes import in_bytes
from hub.evals.starting.preflight import Obstacle
from hub.runs.models import Run
from hub.runs.placing.waiting import Cause, reasons_of
from hub.training.models import TrainingRun
from hub.training.services.creating import check_grants, place_of
from hub.training.services.policy_models import find_policy_model, policy_shape

HELD_UP = {Cause.NO_WORKER, Cause.CLOSED, Cause.TOO_FEW_GPUS, Cause.NO_CLUSTER}


@dataclass(frozen=True)
class Preview:
    """problems: errors that prevent a start; lines: (what, how much) of the resources it needs."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    assumptions: tuple[str, ...] = ()


def preview(*, user: User, owner: Owner, toml: str, now: datetime) -> Preview:
    """Preview a file while it is typed; the service that starts it has the last word."""
    try:
        read = read_training_toml(toml)
    except TrainingConfigError as error:
        return Preview(problems=_told(error.problems) or (error.message,))
    warnings, problems = _told(read.warnings), list[str]()
    try:
        check_grants(user=user, owner=owner, config=read.config, request=TrainingRequest(toml=toml))
    except HubError as error:
        problems.append(_words(error))
    draft, unknown = _draft(user, owner, read.config)
    problems += unknown
    if draft is None and not unknown:
        warnings += (f"this hub's catalog has no {read.config.model}: it is looked up when the run starts",)
    shape = policy_shape(draft) if draft is not None else None
    found = estimate(read.config, shape)
    lines = list(_lines(read.config, found))
    obstacles = list[Obstacle]()
    if draft is not None:
        try:
            queue, need = place_of(draft, read.config)
        except HubError as error:
            problems.append(_words(error))
        else:
            lines.insert(2, ("GPUs", need.words() if need.count else "none: a CPU is enough"))
            obstacles += _waits(user, owner, queue, need, now)
    return Preview(tuple(problems), warnings, tuple(obstacles), tuple(lines), found.assumptions)


def _draft(user: User, owner: Owner, config: TrainingConfig) -> tuple[TrainingRun | None, list[str]]:
    """Return the run as it would be, if its model is in the catalog, and otherwise any errors."""
    slug, slash, name = config.model.partition("/")
    wanted = {"owner__slug": slug, "name": name} if slash else {"owner": owner, "name": config.model}
    if not visible_models(user).filter(**wanted).exists():
        return None, [] if slash else [f"there is no model {config.model}"]
    try:
        policy = find_policy_model(user=user, owner=owner, config=config)
    except HubError as error:
        return None, [_words(error)]
    return TrainingRun(owner=owner, model_name=config.model, mode=config.trainer.mode.value, **policy.fields()), []


def _lines(config: TrainingConfig, found: TrainingEstimate) -> Iterable[tuple[str, str]]:
    groups = found.groups_per_step
    yield "A step", f"{whole(found.rollouts_per_step)} rollouts in {whole(groups)} group{'' if groups == 1 else 's'}"
    yield "Sampled tokens", f"at most {whole(found.sampled_tokens)} ({whole(found.sampled_tokens_per_step)} a step)"
    for part, sizes in (("Learner", found.learner), ("Engine", found.engine), ("Disk", found.disk)):
        if sizes:
            yield part, f"at most {in_bytes(sum(sizes.values()))} ({_parts(sizes)})"
    if config.eval is not None and config.eval.env:
        count = 1 + config.max_steps // config.eval.interval
        yield "Evaluations", f"every {config.eval.interval} steps, {count} in all"


def _parts(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{part} {in_bytes(size)}" for part, size in sizes.items())


def _waits(user: User, owner: Owner, queue: str, need: GpuNeed, now: datetime) -> list[Obstacle]:
    """Return what would hold up a run that is queued now."""
    run = Run(
        kind=RunKind.TRAIN.value,
        queue=queue,
        owner=owner,
        state=RunState.QUEUED.value,
        gpus=need.count,
        gpu_memory_mb=need.memory_mb,
        hosts=need.hosts,
        gpus_by_host=list(need.by_host),
    )
    reason = reasons_of([run], now=now)[run.pk]
    if reason.cause not in HELD_UP:
        return []
    words = reason.words[:1].upper() + reason.words[1:]
    if user.is_administrator:
        return [Obstacle(words, "the run waits until one can take it", reverse("workers"), "Workers")]
    return [Obstacle(words, "the run waits until an administrator starts one")]


def _told(problems: Iterable[ConfigProblem]) -> tuple[str, ...]:
    return tuple(map(str, problems))


def _words(error: HubError) -> str:
    fields = "; ".join(f"{place}: {problem}" for place, problem in error.fields.items() if problem)
    return f"{error.message}{f' ({fields})' if fields else ''}{f': {error.hint}' if error.hint else ''}"
