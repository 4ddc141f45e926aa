"""Environments of the current generation copy tasks, and let the copies' scoring wait: the runner's notes follow."""

from __future__ import annotations

import copy

import pytest
from envhub.runner.attempts import CURRENT, Attempt
from envhub.runner.current.adapter import _note_scoring


class Task:
    scoring_deferred = False

    def __init__(self, attempt: Attempt) -> None:
        self.noted = [attempt]

    async def score(self) -> tuple[str, bool]:
        return ("later" if self.scoring_deferred else "now"), self.noted[0].scoring


class Harder(Task):
    async def score(self) -> tuple[str, bool]:
        return await super().score()


@pytest.mark.parametrize("kinds", [(Task,), (Harder,), (Task, Harder), (Harder, Task)])
async def test_a_copy_is_scored_as_itself(kinds: tuple[type[Task], ...]) -> None:
    for kind in kinds:
        _note_scoring(kind)
    attempt = Attempt(0, {})
    task = kinds[-1](attempt)
    waiting = copy.copy(task)
    waiting.scoring_deferred = True
    token = CURRENT.set(attempt)
    try:
        assert await task.score() == ("now", True)
        assert await waiting.score() == ("later", False)
    finally:
        CURRENT.reset(token)
    assert not attempt.scoring
