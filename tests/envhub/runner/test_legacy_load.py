"""A v0 environment is made as the library's load_environment makes it: with its id, its arguments and its config."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from envhub.runner import legacy


def module_of(load_environment: Any) -> ModuleType:
    module = ModuleType("words")
    module.load_environment = load_environment  # type: ignore[attr-defined]
    return module


def environment(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"env_id": "", "env_args": {}, "rubric": None, **fields})


def test_an_environment_is_told_its_id_and_arguments() -> None:
    adapter = legacy.load(module_of(lambda n=5: environment(n=n)), "words", {"n": 7})
    assert (adapter.env.n, adapter.env.env_id, adapter.env.env_args) == (7, "words", {"n": 7})


def test_what_an_environment_says_of_itself_stays() -> None:
    adapter = legacy.load(module_of(lambda: environment(env_id="own", env_args={"a": 1})), "words", {})
    assert (adapter.env.env_id, adapter.env.env_args) == ("own", {"a": 1})


def test_a_forgotten_return_is_named() -> None:
    with pytest.raises(TypeError, match="load_environment returned NoneType, no environment"):
        legacy.load(module_of(lambda: None), "words", {})


def test_the_library_makes_config_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def library(name: str, **arguments: Any) -> SimpleNamespace:
        asked.append((name, arguments))
        return environment()

    monkeypatch.setitem(sys.modules, "verifiers", SimpleNamespace(load_environment=library))
    legacy.load(module_of(lambda config=None: environment()), "words", {})
    assert asked == [("words", {})]
