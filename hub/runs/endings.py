"""Who else wants to know that a run has ended: apps above register here, `runs` itself knows none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # the files of apps, which register, are read before any model
    from hub.runs.models import Run

Listener: TypeAlias = "Callable[[Run], None]"
_listeners: list[Listener] = []


def register_listener(listener: Listener) -> None:
    """Called in AppConfig.ready(). It shares the transaction of the run's last move, after its kind's on_transition."""
    _listeners.append(listener)


def tell_end(run: Run) -> None:
    """`run` is as it is after the move."""
    for listener in _listeners:
        listener(run)
