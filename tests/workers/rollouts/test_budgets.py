"""A rollout that has used its budget ends as truncated and is scored: with real libraries in a box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.evals.rollouts import Outcome

from tests.workers.rollouts.test_step_rewards import rollouts_of
from workers.rollouts.interceptor.recorder import Budget, Caps

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]


@pytest.mark.parametrize(
    ("release", "module", "harness"),
    [
        pytest.param("0.1.14", "legacy_steps", None, marks=pytest.mark.matrix),
        ("0.4.0", "current_steps", {"max_turns": 3}),
    ],
)
async def test_a_spent_budget_ends_a_rollout_with_its_reward(
    tmp_path: Path, release: str, module: str, harness: dict[str, Any] | None
) -> None:
    budget = Caps(budget=Budget(turns=3))
    *_, records, _ = await rollouts_of(release, module, {}, tmp_path, harness=harness, caps=budget)
    assert [record.failure for record in records] == [None, None]
    assert [(record.outcome, record.reward) for record in records] == [(Outcome.TRUNCATED, 7.0)] * 2
    assert [[turn.status for turn in record.turns] for record in records] == [[200] * 3] * 2
    assert all(turn.trainable for record in records for turn in record.turns)
