"""Golden files of what releases of hub, workers and clients tell each other: what one wrote, the next reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol import runs
from envhub.protocol.placing import clusters, gpus
from pydantic import BaseModel, ValidationError

GOLDEN = Path(__file__).resolve().parent / "golden" / "runs"
TYPES: dict[str, type[BaseModel]] = {
    "claim": runs.Claim,
    "cluster_heads": clusters.ClusterHeads,
    "gpu_need": gpus.GpuNeed,
    "join_reply": runs.JoinReply,
    "run": runs.RunView,
    "worker_facts": runs.WorkerFacts,
}
ADDED = {"subject", "queued_at", "traceparent", "led_here", "trace_id", "trace_url"}  # by a later version


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_read_back_without_loss(name: str) -> None:
    assert golden(name).items() <= TYPES[name].model_validate(golden(name)).model_dump(mode="json").items()


def test_every_golden_file_has_its_type() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TYPES)


@pytest.mark.parametrize("name", ["claim", "run"])
def test_an_older_hub_is_understood(name: str) -> None:
    older = {key: value for key, value in golden(name).items() if key not in ADDED or (name, key) == ("run", "subject")}
    TYPES[name].model_validate(older)


def test_a_trace_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError):
        runs.Claim.model_validate(golden("claim") | {"traceparent": "00-x"})


def test_what_knows_no_cluster_is_read_as_having_none() -> None:
    old = {key: value for key, value in golden("worker_facts").items() if key != "cluster"}
    assert runs.WorkerFacts.model_validate(old).cluster is None
    assert gpus.GpuNeed.model_validate({"count": 1, "memory_mb": 0}).hosts == 1
