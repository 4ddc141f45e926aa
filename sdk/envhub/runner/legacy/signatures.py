"""The legacy library inspects the signature of each reward function and stop condition at every call: once will do.

It is a fifth of the CPU of a short rollout.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

MODULES = ("verifiers.rubrics.rubric", "verifiers.utils.async_utils")
REMEMBERED = 4096


def remember_signatures() -> None:
    """Give these modules an `inspect` whose `signature` remembers what it said of a function."""
    for name in MODULES:
        module: Any = sys.modules.get(name)
        if getattr(module, "inspect", None) is inspect:
            module.inspect = _remembering()


def _remembering() -> ModuleType:
    remembered = lru_cache(maxsize=REMEMBERED)(inspect.signature)

    def signature(function: Callable[..., Any]) -> inspect.Signature:
        try:
            return remembered(inspect.unwrap(function, stop=_has_own))
        except TypeError:  # not hashable, or no function: the library's own error
            return inspect.signature(function)

    module = ModuleType("inspect")
    vars(module).update(vars(inspect), signature=signature)
    return module


def _has_own(function: Callable[..., Any]) -> bool:
    """Where `inspect` stops, too. A try's guard is its own and holds it: remembered is the function inside."""
    return hasattr(function, "__signature__")
