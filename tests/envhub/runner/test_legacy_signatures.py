"""What the legacy library asks of `inspect` again and again is remembered, and nothing else of it changes."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from types import ModuleType
from typing import Any

import pytest
from envhub.runner.attempts import Attempt
from envhub.runner.legacy.rubrics import guarded_function
from envhub.runner.legacy.signatures import MODULES, remember_signatures


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, state: Any) -> float:
        return 0.0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType(MODULES[0])
    module.inspect = inspect  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULES[0], module)
    remember_signatures()
    return module


def test_a_signature_is_made_once(library: Any) -> None:
    def reward(completion: str, answer: str = "") -> float:
        return 1.0

    first = library.inspect.signature(reward)
    assert first == inspect.signature(reward)
    assert library.inspect.signature(reward) is first


def test_the_guard_of_a_try_shares_its_functions_signature_and_keeps_no_try_alive(library: Any) -> None:
    def reward(completion: str, answer: str = "") -> float:
        return 1.0

    attempt = Attempt(0, {})
    guarded = guarded_function(reward, "reward", [attempt], True)
    assert library.inspect.signature(guarded) is library.inspect.signature(reward)

    gone = weakref.ref(attempt)
    del attempt, guarded
    gc.collect()
    assert gone() is None


def test_what_cannot_be_remembered_is_inspected(library: Any) -> None:
    assert list(library.inspect.signature(Unhashable()).parameters) == ["state"]
    with pytest.raises(TypeError, match="not a callable"):
        library.inspect.signature(3)


def test_the_rest_of_inspect_is_what_it_was(library: Any) -> None:
    assert library.inspect.iscoroutinefunction is inspect.iscoroutinefunction
    assert "signature" in vars(inspect)
    assert inspect.signature is not library.inspect.signature
