"""A failure at a bound of the box says what to do about it; other failures are left as they are."""

from __future__ import annotations

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutFailure, RolloutRecord
from envhub.protocol.runs import Failure, FailureKind

from workers.rollouts.box_hints import advise, explained


def failed(message: str, traceback: str = "") -> RolloutRecord:
    failure = RolloutFailure(kind=FailureKind.VERIFIER, type="URLError", message=message, traceback=traceback)
    return RolloutRecord(example=0, rollout=0, example_hash="0" * 64, outcome=Outcome.FAILED, failure=failure)


@pytest.mark.parametrize(
    "message",
    [
        "<urlopen error [Errno -3] Temporary failure in name resolution>",
        "[Errno 101] Network is unreachable",
        "Tunnel connection failed: 403 example.org:443 is not on this run's list",
    ],
)
def test_the_command_that_cures_it_comes_first(message: str) -> None:
    advised = advise(failed(message)).failure
    assert advised is not None
    assert "--allow-host" in advised.message[:200]
    assert message in advised.message


def test_a_cause_further_down_is_found_too() -> None:
    advised = advise(failed("APIConnectionError", "httpx.ConnectError: [Errno -2] Name or service not known")).failure
    assert advised is not None
    assert "--allow-host" in advised.message


def test_a_read_only_folder_says_where_packages_may_write() -> None:
    advised = advise(failed("[Errno 30] Read-only file system: '/opt/venv/lib/data'")).failure
    assert advised is not None
    assert "$TMPDIR" in advised.message


def test_a_package_that_does_not_load_for_it_says_so_too() -> None:
    failure = Failure(kind=FailureKind.ENVIRONMENT, code="load_failed", message="OSError", hint="See the traceback.")
    assert "$TMPDIR" in explained(failure, "OSError: [Errno 30] Read-only file system: '/opt/venv/x'").hint
    assert explained(failure, "ZeroDivisionError") is failure


def test_other_failures_stay_as_they_are() -> None:
    record = failed("division by zero")
    assert advise(record) is record
