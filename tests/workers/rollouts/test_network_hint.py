"""A failure for want of a network says how to grant it; other failures are left as they are."""

from __future__ import annotations

import pytest
from envhub.protocol.rollouts import Outcome, RolloutFailure, RolloutRecord
from envhub.protocol.runs import FailureKind

from workers.rollouts.network_hint import advise


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


def test_other_failures_stay_as_they_are() -> None:
    record = failed("division by zero")
    assert advise(record) is record
