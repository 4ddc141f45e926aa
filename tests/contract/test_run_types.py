"""Golden files of what hub, workers and clients of different versions tell each other of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from envhub.protocol.runs import Claim, RunView
from pydantic import BaseModel, ValidationError

GOLDEN = Path(__file__).resolve().parent / "golden" / "runs"
TYPES: dict[str, type[BaseModel]] = {"claim": Claim, "run": RunView}
ADDED = {"subject", "queued_at", "traceparent", "led_here", "trace_id", "trace_url"}  # by a later version


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_read_back_without_loss(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    written = TYPES[name].model_validate(golden).model_dump(mode="json")
    assert golden.items() <= written.items()


@pytest.mark.parametrize("name", TYPES)
def test_an_older_hub_is_understood(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    older = {key: value for key, value in golden.items() if key not in ADDED or (name == "run" and key == "subject")}
    TYPES[name].model_validate(older)


def test_a_trace_that_is_none_is_refused() -> None:
    golden = json.loads((GOLDEN / "claim.json").read_text())
    with pytest.raises(ValidationError):
        Claim.model_validate(golden | {"traceparent": "00-x"})
