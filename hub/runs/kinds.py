"""The kinds of run, registered by their apps in AppConfig.ready(): `runs` itself knows none of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from envhub.protocol.runs import RunKind, RunState
from pydantic import BaseModel

from hub.accounts.models import Owner
from hub.runs.models import Run


def _nobody(run: Run) -> frozenset[UUID]:
    """For kinds that run no environment."""
    return frozenset()


def _ignore(run: Run, old: RunState, new: RunState) -> None:
    """For kinds whose detail does not follow the run's state."""


def _nothing(run: Run) -> str:
    """For kinds of which there is no more to say than that they have succeeded."""
    return ""


@dataclass(frozen=True)
class Remains:
    """What is left of a kind when its runs have ended, for `hub.runs.retention`.

    ended: those of an owner that ended before a moment and may go. forget: deletes one by its key, in a transaction of
    its own, with all that belongs to it; False when it may not go, or has not ended before that moment any more.
    """

    ended: Callable[[Owner, datetime], QuerySet[Any]]
    forget: Callable[[UUID, datetime], bool]


@dataclass(frozen=True)
class RunKindSpec:
    """What `runs` must know of a kind.

    payload: `Claim.payload`, made for each claim; a HubError from it fails the run with that code and message.
    on_transition: called inside the transaction of every move, with the run as it is after the move.
    farewell: how much longer than others a cancelled run may take to end, while its worker saves something.
    outcome: what a run that succeeded came to, in a few words, for whoever is told that it has.
    remains: what retention deletes, in this order; nothing: the ended runs of the kind, with what cascades from them.
    authors: the owners of the environments that it runs.
    """

    kind: RunKind
    queue: str
    payload: Callable[[Run], BaseModel]
    on_transition: Callable[[Run, RunState, RunState], None] = _ignore
    farewell: timedelta = timedelta()
    outcome: Callable[[Run], str] = _nothing
    remains: tuple[Remains, ...] = ()
    authors: Callable[[Run], frozenset[UUID]] = _nobody


_SPECS: dict[RunKind, RunKindSpec] = {}


def register(spec: RunKindSpec) -> None:
    """Make a kind known; twice is a programming error."""
    if spec.kind in _SPECS:
        raise RuntimeError(f"the run kind {spec.kind.value} is registered twice")
    _SPECS[spec.kind] = spec


def all_specs() -> tuple[RunKindSpec, ...]:
    """Every registered kind."""
    return tuple(_SPECS.values())


def spec_of(kind: RunKind | str) -> RunKindSpec:
    """The registered spec. Raises LookupError for a kind that no installed app brings."""
    try:
        return _SPECS[RunKind(kind)]
    except KeyError:
        raise LookupError(f"no app has registered the run kind {kind}") from None


def authors_of(run: Run) -> frozenset[UUID]:
    """The owners of the environments that a run, or the run that it is a part of, executes."""
    whole = run.parent or run
    return spec_of(whole.kind).authors(whole)
