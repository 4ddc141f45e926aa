"""A rollout that the library refuses asks for another release; one that the package breaks does not."""

from __future__ import annotations

import pytest
from envhub.protocol.evals.rollouts import RolloutFailure
from envhub.protocol.runs import FailureKind

from workers.builds.trying.mismatch import OUTDATED, mismatch

LIBRARY = '  File "/opt/venv/lib/python3.11/site-packages/verifiers/types.py", line 459, in normalize\n    raise\n'
PACKAGE = '  File "/opt/venv/lib/python3.11/site-packages/mine.py", line 3, in reward\n    1 / 0\n'
STANDARD = '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n    raise\n'
CAUSED = (
    "\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n"
)


def failure(message: str, trace: str, kind: FailureKind = FailureKind.ENVIRONMENT) -> RolloutFailure:
    return RolloutFailure(
        kind=kind, type="ValueError", message=message, traceback=f"Traceback:\n{trace}ValueError: x\n"
    )


@pytest.mark.parametrize(
    ("message", "trace", "expected"),
    [
        ("Serialized task payloads must be JSON objects", PACKAGE + LIBRARY, True),
        ("Serialized task payloads must be JSON objects", PACKAGE + LIBRARY + STANDARD, True),
        ("Expecting value", LIBRARY + PACKAGE + STANDARD, False),
        ("division by zero", LIBRARY + PACKAGE, False),
        ("a tool failed", PACKAGE + "ZeroDivisionError: x\n" + CAUSED + LIBRARY, False),
        ("Rubric.score() got an unexpected keyword argument 'parser'", LIBRARY + PACKAGE, True),
        ("module 'verifiers' has no attribute 'MaybeThinkParser'", PACKAGE, True),
        ("'dict' object has no attribute 'function'", LIBRARY + PACKAGE, True),
        ("'AssistantMessage' object is not subscriptable", LIBRARY + PACKAGE, True),
        ("'NoneType' object is not subscriptable", LIBRARY + PACKAGE, False),
        ("no traceback", "", False),
        ("clone failed: x\nfatal: repository 'https://github.com/a/b.git/' not found", LIBRARY, False),
    ],
)
def test_the_root_cause_decides(message: str, trace: str, expected: bool) -> None:
    assert bool(mismatch(failure(message, trace))) is expected


def test_what_the_model_or_the_outside_did_is_no_mismatch() -> None:
    for kind in (FailureKind.POLICY, FailureKind.INFRASTRUCTURE, FailureKind.LIMIT):
        assert not mismatch(failure("x", LIBRARY, kind))


def test_an_environment_for_an_earlier_release_says_which() -> None:
    told = RolloutFailure(kind=FailureKind.ENVIRONMENT, type="OutdatedEnvironment", message="x", traceback=PACKAGE)
    assert mismatch(told) == OUTDATED


@pytest.mark.parametrize(
    ("kind", "type_", "expected"),
    [
        (FailureKind.ENVIRONMENT, "TypeError", True),  # None, where setup_state used to return the state
        (FailureKind.ENVIRONMENT, "ValueError", False),
        (FailureKind.VERIFIER, "TypeError", False),
    ],
)
def test_a_value_that_the_environment_took_for_another_asks_for_another_release(
    kind: FailureKind, type_: str, expected: bool
) -> None:
    told = RolloutFailure(kind=kind, type=type_, message="'NoneType' object ...", traceback=LIBRARY + PACKAGE)
    assert bool(mismatch(told)) is expected
