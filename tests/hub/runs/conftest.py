"""A registered run kind that records its moves, in place of the real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from envhub.protocol.runs import RunKind, RunState
from pydantic import BaseModel

from hub.runs import kinds
from hub.runs.models import Run
from hub.runs.services import dispatching


class Payload(BaseModel):
    run: UUID


class Recorder:
    """What on_transition was told."""

    def __init__(self) -> None:
        self.moves: list[tuple[str, str]] = []
        self.error: Exception | None = None  # of the payload
        self.refusal: Exception | None = None  # of a move

    def note(self, run: Run, old: RunState, new: RunState) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.moves.append((old.value, new.value))

    def payload(self, run: Run) -> Payload:
        if self.error is not None:
            raise self.error
        return Payload(run=run.pk)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    spec = kinds.RunKindSpec(RunKind.EVAL, "eval", payload=recorder.payload, on_transition=recorder.note)
    monkeypatch.setitem(kinds._SPECS, RunKind.EVAL, spec)
    return recorder


@dataclass(frozen=True)
class Sent:
    """A message to a worker."""

    run_id: str
    queue: str
    task_id: str
    label: str
    headers: Mapping[str, Any]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """In place of the broker: what was sent, in order."""
    messages: list[Sent] = []

    def send(task: str, run_id: str, **fields: Any) -> bool:
        messages.append(Sent(run_id, **fields))
        return True

    monkeypatch.setattr(dispatching, "send", send)
    return messages
