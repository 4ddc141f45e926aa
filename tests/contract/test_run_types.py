"""Golden files hold hub and workers of different releases together: what one wrote, the next still reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol import clusters, gpus, runs
from pydantic import BaseModel

GOLDEN = Path(__file__).resolve().parent / "golden" / "runs"
TYPES: dict[str, type[BaseModel]] = {
    "cluster_heads": clusters.ClusterHeads,
    "gpu_need": gpus.GpuNeed,
    "join_reply": runs.JoinReply,
    "worker_facts": runs.WorkerFacts,
}


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_read_back_without_loss(name: str) -> None:
    assert TYPES[name].model_validate(golden(name)).model_dump(mode="json") == golden(name)


def test_every_golden_file_has_its_type() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TYPES)


def test_what_knows_no_cluster_is_read_as_having_none() -> None:
    old = {key: value for key, value in golden("worker_facts").items() if key != "cluster"}
    assert runs.WorkerFacts.model_validate(old).cluster is None
    assert gpus.GpuNeed.model_validate({"count": 1, "memory_mb": 0}).hosts == 1
