"""What a package is written for is found from its source and its requirement, without running it."""

from __future__ import annotations

import pytest
from envhub.packaging.generation import classify
from envhub.protocol.registry.packages import Generation

V0 = """
import verifiers as vf

def load_environment(n: int = 3) -> vf.Environment:
    return vf.SingleTurnEnv(dataset=None, rubric=vf.Rubric())
"""
HARNESS = """
import verifiers as vf

class Words(vf.Taskset[vf.TasksetConfig]):
    def load_tasks(self) -> vf.Tasks:
        return []

def load_environment(config: vf.EnvConfig) -> vf.Env:
    return vf.Env(taskset=Words(config=config.taskset))
"""
SOURCE_FORM = """
import verifiers as vf

def rows():
    return []

def load_environment():
    return vf.Env(taskset=vf.Taskset(source=rows))
"""
CURRENT = """
import verifiers.v1 as vf

class Words(vf.Taskset[vf.Task, vf.TasksetConfig]):
    def load(self):
        return []

__all__ = ["Words"]
"""


def found(source: str, *dependencies: str, **overrides: object) -> tuple[Generation | None, str]:
    evidence = classify({"entry.py": source}, dependencies, overrides)
    return evidence.generation, evidence.constraint_set


@pytest.mark.parametrize(
    ("source", "requirement", "generation", "constraint_set"),
    [
        (V0, "verifiers>=0.1.8", Generation.LEGACY, "v0"),
        (V0, "verifiers", Generation.LEGACY, "v0"),
        (V0, "verifiers>=0.1.15.dev4", Generation.LEGACY, "v0-dev"),
        (V0, "verifiers>=0.2", Generation.LEGACY, "v0-late"),
        (V0, "verifiers>=0.3", Generation.LEGACY, "v0-last"),
        (V0, "verifiers==0.1.15.dev443", Generation.LEGACY, "v0-dev"),
        (HARNESS, "verifiers==0.1.15.dev11", Generation.HARNESS, "harness"),
        (HARNESS, "verifiers>=0.1.14", Generation.HARNESS, "harness"),
        (SOURCE_FORM, "verifiers>=0.1.14", Generation.HARNESS, "harness-source"),
        (SOURCE_FORM, "verifiers==0.1.14", Generation.HARNESS, "harness-source"),
        (CURRENT, "verifiers", Generation.CURRENT, "current"),
        (CURRENT, "verifiers==0.3.1", Generation.CURRENT, "current"),
    ],
)
def test_source_and_requirement_decide(
    source: str, requirement: str, generation: Generation, constraint_set: str
) -> None:
    assert found(source, requirement) == (generation, constraint_set)


def test_reasons_name_file_and_line() -> None:
    evidence = classify({"pkg/entry.py": V0}, ["verifiers>=0.1.8"], {})
    assert "pkg/entry.py:4: load_environment" in evidence.reasons
    assert evidence.specifier == ">=0.1.8"


def test_from_imports_under_other_names_are_followed() -> None:
    source = "from verifiers import SingleTurnEnv as Simple\n\ndef load_environment():\n    return Simple()\n"
    assert found(source, "verifiers")[0] is Generation.LEGACY


def test_harness_code_that_imports_v1_under_an_alias_is_not_taken_for_current() -> None:
    assert found(HARNESS.replace("import verifiers as vf", "import verifiers.v1 as vf"))[0] is Generation.HARNESS


def test_an_override_wins_over_the_source() -> None:
    assert found(V0, "verifiers", generation="current") == (Generation.CURRENT, "current")


def test_an_unknown_override_is_named_and_nothing_is_guessed() -> None:
    evidence = classify({"entry.py": V0}, [], {"generation": "newest"})
    assert evidence.generation is None
    assert "'newest' is not one of legacy, harness, current" in evidence.reasons[0]


def test_tests_and_documentation_do_not_vote() -> None:
    evidence = classify({"entry.py": V0, "tests/test_it.py": CURRENT, "docs/sample.py": CURRENT}, [], {})
    assert evidence.generation is Generation.LEGACY


def test_a_package_without_verifiers_has_no_generation() -> None:
    assert found("print('hello')", "numpy") == (None, "")


@pytest.mark.parametrize("source", ["def broken(:\n", "x = " + "(" * 5000, "\0", "x = 1" + " + 1" * 100_000])
def test_source_that_cannot_be_parsed_is_reported_not_raised(source: str) -> None:
    evidence = classify({"entry.py": V0, "bad.py": source}, [], {})
    assert evidence.generation is Generation.LEGACY
    assert any(reason.startswith("bad.py") for reason in evidence.reasons)


COMPLETED = """
import verifiers as vf

class Guess(vf.MultiTurnEnv):
    async def is_completed(self, messages, state, **kwargs):
        return True

def load_environment():
    return Guess()
"""
RESPONDS = """
import verifiers as vf

class Guess(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        return [], state

def load_environment():
    return Guess()
"""


@pytest.mark.parametrize("source", [COMPLETED, RESPONDS])
@pytest.mark.parametrize(
    ("requirement", "constraint_set"),
    [
        ("verifiers", "v0-pairs"),
        ("verifiers>=0.1.5", "v0-pairs"),
        ("verifiers>=0.1.8", "v0"),
        ("verifiers==0.1.9", "v0-states"),
    ],
)
def test_methods_in_the_form_of_before_0_1_8_are_tried_with_these_releases_first(
    source: str, requirement: str, constraint_set: str
) -> None:
    assert found(source, requirement) == (Generation.LEGACY, constraint_set)


@pytest.mark.parametrize(
    ("early", "later"),
    [
        ("is_completed(self, messages, state, **kwargs)", "is_completed(self, state, **kwargs)"),
        ("return [], state", "return [*messages, state]"),
        ("return [], state", "return [], 1"),
    ],
)
def test_methods_in_the_form_of_later_releases_are_not_taken_for_early_ones(early: str, later: str) -> None:
    source = COMPLETED if early in COMPLETED else RESPONDS
    assert found(source.replace(early, later), "verifiers") == (Generation.LEGACY, "v0")
