"""What a log says of rollouts that fail."""

from __future__ import annotations

from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runs import FailureKind

from tests.workers.training.coordinator.groups import record, turn
from workers.rollouts.joining import failed
from workers.training.coordinator.failures import FailureNotes


def rollouts(good: int, bad: int, message: str = "it is empty") -> list[RolloutRecord]:
    fine = [record(0, number, 1.0, turn(0, [1, 2], [3, 4])) for number in range(good + bad)]
    return fine[:good] + [failed(one, FailureKind.POLICY, "Empty", message) for one in fine[good:]]


def test_a_reason_is_told_when_it_is_new_and_again_when_many_have_it() -> None:
    notes = FailureNotes()
    told = [notes.note("a", rollouts(20, bad)) for bad in (0, 1, 1, 5)]
    assert [bool(line) for line in told] == [False, True, False, True]
    assert told[1] == "1 of 21 rollouts of a failed (most: it is empty); the others are trained on"
    assert "another" in notes.note("a", rollouts(20, 1, "another"))
    assert notes.note("b", rollouts(20, 1, "another"))
