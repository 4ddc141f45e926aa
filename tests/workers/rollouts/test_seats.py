"""Several agents in one rollout, from a real library in a box through the interceptor up to the advantages."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.workers.rollouts.test_step_rewards import rollouts_of, samples_of

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]


@pytest.mark.parametrize("release", [pytest.param("0.3.1", marks=pytest.mark.matrix), "0.4.0"])
async def test_each_seat_is_compared_with_its_like_and_one_that_is_not_trained_is_left_out(
    tmp_path: Path, release: str
) -> None:
    duels = count()

    def answer(body: dict[str, Any]) -> str:
        is_first = "You are first" in str(body["messages"][-1]["content"])
        return "yes" if is_first and next(duels) == 0 else "no"  # the first seat of one duel wins, the other is a draw

    records, alone = await rollouts_of(release, "current_seats", {}, tmp_path, answer=answer, examples=2)
    assert not any(record.failure for record in (*records, *alone)), records
    assert [[turn.trainable for turn in record.turns] for record in alone] == [[False]] * 2
    assert [record.reward for record in records] == [0.0, 0.0]  # the seats' mean
    seats = [[(turn.agent.name, turn.agent.reward) for turn in record.turns if turn.agent] for record in records]
    won = [("first", 1.0), ("second", -1.0), ("referee", 0.0)]
    assert sorted(seats, key=lambda one: -one[0][1]) == [won, [("first", 0.0), ("second", 0.0), ("referee", 0.0)]]  # type: ignore[operator]
    assert [[turn.trainable for turn in record.turns] for record in records] == [[True, True, False]] * 2
    samples = samples_of(records)
    found = sorted((sample.rollout.index, float(sample.advantages[sample.train][0])) for sample in samples)
    winner = next(number for number, one in enumerate(seats) if one == won)
    assert sorted(found) == sorted([(winner, 0.5), (winner, -0.5), (1 - winner, -0.5), (1 - winner, 0.5)])
