"""Models that the hub itself makes, one process at a time; meanwhile who names one is told so."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TINY = "tiny"  # hub/tiny, the model of every example


def _lock(data: Path, name: str) -> Path:
    return data / "models" / f".{name}.lock"


@contextmanager
def making(data: Path, name: str) -> Iterator[None]:
    """Alone with the making of that model. Waits for another that is at it."""
    lock = _lock(data, name)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_being_made(data: Path, name: str) -> bool:
    """Whether somebody is at it now."""
    try:
        with _lock(data, name).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
