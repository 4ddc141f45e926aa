"""What hangs is noticed, named in the log, and started anew: learner, engine and runner, frozen by SIGSTOP."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.workers.training.runs.striking import moments, strike_when
from workers.rollouts import session

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox, pytest.mark.torch]
CONFIG: dict[str, Any] = {
    "max_steps": 3,  # the process that is struck in the second is still needed in the third
    "batch_size": 16,
    "rollouts_per_example": 4,
    "learning_rate": 1e-3,
    "sampling": {"max_tokens": 6},
    "env": [{"id": "alice/reverse-text", "timeout": 10, "max_retries": 1}],
    "trainer": {"rank": 4, "token_budget": 4096, "max_off_policy": 0},
}
STALL_S = 5.0
NAMED = {
    "learner": "the learner has said nothing for",
    "engine": "the engine has not answered for",
    "runner": "blocked its runner past every deadline",
}


@pytest.mark.parametrize("who", list(NAMED))
async def test_a_frozen_process_is_named_and_replaced(
    trainings: Any, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GROUP_GRACE_S", 1.0)
    trainings.settings = {"stall_s": STALL_S}
    run = trainings.queue(trainings.payload(**CONFIG))
    task = asyncio.create_task(trainings.run(run))
    await strike_when(trainings, who, moments(trainings)["while sampling"], task, signal.SIGSTOP)
    finish = await task
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert NAMED[who] in run.log
    assert [step.step for step in trainings.steps()] == [1, 2, 3]
