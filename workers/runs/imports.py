"""Imports that take seconds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, garbage is not looked for: an eighth of the time that torch and its like take to import, and no garbage.

    Afterwards it is, but never again among what was loaded.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
