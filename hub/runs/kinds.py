"""The kinds of run, registered by their apps in AppConfig.ready(): `runs` itself knows none of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from envhub.protocol.runs import RunKind, RunState
from pydantic import BaseModel

from hub.runs.models import Run


def _ignore(run: Run, old: RunState, new: RunState) -> None:
    """For kinds whose detail does not follow the run's state."""


@dataclass(frozen=True)
class RunKindSpec:
    """What `runs` must know of a kind.

    payload: `Claim.payload`, made for each claim; a HubError from it fails the run with that code and message.
    on_transition: called inside the transaction of every move, with the run as it is after the move.
    farewell: how much longer than others a cancelled run may take to end, while its worker saves something.
    """

    kind: RunKind
    queue: str
    payload: Callable[[Run], BaseModel]
    on_transition: Callable[[Run, RunState, RunState], None] = _ignore
    farewell: timedelta = timedelta()


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
