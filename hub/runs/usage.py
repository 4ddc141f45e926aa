"""Tracks what owners use per day and kind of run (time of workers, GPUs and processors; tokens by model), and enforces
limits.

The time of running runs is added on reading, so that a run that takes three days counts before it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Sum, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Greatest
from django.utils import timezone
from envhub.protocol.accounts.usage import USAGE_DAYS, KindUsage, ModelUsage, UsageView
from envhub.protocol.runs import RunKind, RunState

from hub.accounts.models import Owner
from hub.accounts.quotas import Limits, limits_of, limits_of_each
from hub.core.errors import Conflict
from hub.runs.models import OwnerModelUsage, OwnerUsage, Run

_FIELDS = ("run_seconds", "gpu_seconds", "cpu_seconds", "prompt_tokens", "completion_tokens")
_OF_MODEL = ("prompt_tokens", "completion_tokens", "cost")
MOST_MODELS = 50  # models reported per owner
SPENDS_TOKENS = (RunKind.EVAL, RunKind.TRAIN)


class LimitReached(Conflict):
    """The owner has used up what the operator allows."""

    code = "usage_limit"


def note_time(*, run: Run, moved: Run, until: datetime) -> None:
    """Count the attempt that a move from `run` to `moved` ends now. Call it last in a transaction: whoever counts
    tokens takes its locks in the same order.
    """
    if run.state == RunState.RUNNING and run.started_at is not None:
        _add(OwnerUsage, run.owner_id, until, {"kind": run.kind}, **_amounts(moved, run.started_at, until))


def _amounts(run: Run, since: datetime, until: datetime) -> dict[str, float]:
    """Return what a run's newest attempt has used."""
    return {
        "run_seconds": max(0.0, (until - since).total_seconds()),
        "gpu_seconds": gpu_seconds_of(run, since, until),
        "cpu_seconds": run.attempt_cpu_seconds,
    }


def gpu_seconds_of(run: Run, since: datetime, until: datetime) -> float:
    """Return the GPU seconds of an attempt that began at `since`."""
    return max(0.0, (until - since).total_seconds()) * gpus_of(run) + run.extra_gpu_seconds


def gpus_of(run: Run) -> int:
    """Return the GPUs that count for a whole attempt: those it was placed with, or those of the engine that it uses."""
    return max(run.gpus, run.engine_gpus)


def extra_gpu_columns(held: int | None, seconds: float) -> dict[str, object]:
    """Return an update of a run that counts extra GPUs: the greatest number of seconds that its attempt has told."""
    told: dict[str, object] = {"extra_gpu_seconds": Greatest(F("extra_gpu_seconds"), Value(seconds))}
    return told if held is None else {**told, "extra_gpus": held}


def cpu_columns(seconds: float | None) -> dict[str, Combinable]:
    """For an update of a run: its attempt has had so much of processors so far. Said again it changes nothing,
    and what a killed worker has told stays."""
    if seconds is None:
        return {}
    more = Greatest(Value(seconds) - F("attempt_cpu_seconds"), Value(0.0))
    return {"cpu_seconds": F("cpu_seconds") + more, "attempt_cpu_seconds": F("attempt_cpu_seconds") + more}


def note_tokens(
    *, owner_id: UUID, kind: RunKind, model: str, prompt: int, completion: int, cost: float | None = None
) -> None:
    """Count the tokens of an owner's hosted runs, and their cost (US dollars). Call it last in a transaction."""
    if not prompt and not completion:
        return
    now = timezone.now()
    _add(OwnerUsage, owner_id, now, {"kind": kind.value}, prompt_tokens=prompt, completion_tokens=completion)
    amounts = {"prompt_tokens": prompt, "completion_tokens": completion, "cost": cost or 0.0}
    _add(OwnerModelUsage, owner_id, now, {"model": model}, **amounts)


def _add(
    table: type[OwnerUsage | OwnerModelUsage], owner_id: UUID, when: datetime, of: dict[str, str], **amounts: float
) -> None:
    key = {"owner_id": owner_id, "day": when.date(), **of}
    changes = {name: F(name) + amount for name, amount in amounts.items()}
    rows = table._default_manager
    if rows.filter(**key).update(**changes) == 0:
        row: Any = table(**key)
        rows.bulk_create([row], ignore_conflicts=True)
        rows.filter(**key).update(**changes)


def usage_of(owners: Sequence[Owner], *, now: datetime) -> list[UsageView]:
    """Return the usage of each owner, in the same order, with four queries for all."""
    since = now.date() - timedelta(days=USAGE_DAYS - 1)
    found: dict[tuple[UUID, str], dict[str, float]] = {}
    rows = OwnerUsage.objects.filter(owner__in=owners, day__gte=since).order_by().values_list("owner_id", "kind")
    for owner_id, kind, *sums in rows.annotate(*(Sum(name) for name in _FIELDS)):
        found[owner_id, kind] = dict(zip(_FIELDS, sums, strict=True))
    for run in Run.objects.filter(owner__in=owners, state=RunState.RUNNING.value, started_at__isnull=False):
        assert run.started_at is not None
        used = found.setdefault((run.owner_id, run.kind), dict.fromkeys(_FIELDS, 0))
        for name, amount in _amounts(run, run.started_at, now).items():
            used[name] += amount
    models = _by_model(owners, since)
    limits = limits_of_each(owner.pk for owner in owners)
    return [
        _view(
            owner,
            {kind: used for (key, kind), used in found.items() if key == owner.pk},
            models.get(owner.pk, []),
            limits[owner.pk],
        )
        for owner in owners
    ]


def _by_model(owners: Sequence[Owner], since: date) -> dict[UUID, list[ModelUsage]]:
    """Return each owner's models, those with the most tokens first."""
    rows = OwnerModelUsage.objects.filter(owner__in=owners, day__gte=since).order_by().values_list("owner_id", "model")
    found: dict[UUID, list[ModelUsage]] = {}
    for owner_id, model, *sums in rows.annotate(*(Sum(name) for name in _OF_MODEL)):
        found.setdefault(owner_id, []).append(ModelUsage(model=model, **dict(zip(_OF_MODEL, sums, strict=True))))
    for of_owner in found.values():
        of_owner.sort(key=lambda one: -(one.prompt_tokens + one.completion_tokens))
    return found


def check_usage(*, owner: Owner, kind: RunKind, wants_gpus: bool) -> None:
    """Check an owner's limits before a run is queued. Raises LimitReached."""
    limits = limits_of(owner.pk)
    wants_tokens = kind in SPENDS_TOKENS and limits.tokens
    if not wants_tokens and not (wants_gpus and limits.gpu_hours):
        return
    (used,) = usage_of([owner], now=timezone.now())
    if wants_gpus and used.gpu_hours_limit is not None and used.gpu_hours >= used.gpu_hours_limit:
        raise _reached(owner, f"{used.gpu_hours:.1f} of {used.gpu_hours_limit:g} GPU hours")
    if wants_tokens and used.tokens_limit is not None and used.tokens >= used.tokens_limit:
        raise _reached(owner, f"{used.tokens:,} of {used.tokens_limit:,} tokens")


def _reached(owner: Owner, what: str) -> LimitReached:
    return LimitReached(
        f"{owner.slug} has used {what} of the last {USAGE_DAYS} days",
        hint="older usage no longer counts (see `hub usage`); ask an administrator for a higher quota",
    )


def _view(owner: Owner, kinds: dict[str, dict[str, float]], models: Sequence[ModelUsage], limits: Limits) -> UsageView:
    at_once = {kind: limits.running_of(kind) for kind in RunKind}
    return UsageView(
        owner=owner.slug,
        kinds=tuple(
            KindUsage(
                kind=RunKind(kind),
                run_seconds=used["run_seconds"],
                gpu_seconds=used["gpu_seconds"],
                cpu_seconds=used["cpu_seconds"],
                prompt_tokens=int(used["prompt_tokens"]),
                completion_tokens=int(used["completion_tokens"]),
            )
            for kind, used in sorted(kinds.items())
        ),
        models=tuple(models[:MOST_MODELS]),
        cost=sum(one.cost for one in models),
        gpu_hours=sum(used["gpu_seconds"] for used in kinds.values()) / 3600,
        gpu_hours_limit=limits.gpu_hours,
        tokens=int(sum(used["prompt_tokens"] + used["completion_tokens"] for used in kinds.values())),
        tokens_limit=limits.tokens,
        running_limits={kind.value: limit for kind, limit in at_once.items() if limit is not None},
    )
