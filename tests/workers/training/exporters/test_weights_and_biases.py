"""The W&B exporter: refusals that say what to do, and the real package without a network (matrix)."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.models.catalog import OutboundPolicy
from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics
from envhub.protocol.training.trainer import WandbTable

from tests.external_packages import output_of, python_with
from workers.runs.children import Children
from workers.training.exporters.interface import ExportRefused, RunInfo
from workers.training.exporters.weights_and_biases import WeightsAndBiases

RUN = RunInfo("0193-t1", "sort", {"model": "hub/tiny"})
# a .wandb file is a LevelDB log: 7 bytes of its own, then records of checksum, length, kind; here all in one block
READER = """
import json, struct, sys
from wandb.proto import wandb_internal_pb2
data, at = open(sys.argv[1], "rb").read(), 7
while at + 7 <= min(len(data), 32768):
    size, kind = struct.unpack_from("<HB", data, at + 4)
    assert kind == 1
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data[at + 7 : at + 7 + size])
    at += 7 + size
    if record.WhichOneof("record_type") == "history":
        print(json.dumps({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}))
"""


def exporter(tmp_path: Path, python: str = "", *allow: str, **secrets: str) -> WeightsAndBiases:
    (tmp_path / "children").mkdir()
    policy = OutboundPolicy(allow=allow, allow_loopback=True)
    children = Children(tmp_path / "children")
    return WeightsAndBiases(WandbTable(), secrets, policy, tmp_path / "metrics", python, children, "r1")


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ({}, "hub secret set WANDB_API_KEY"),
        ({"WANDB_API_KEY": "k", "WANDB_BASE_URL": "http://127.0.0.1:9"}, "must list it in HUB_OUTBOUND_ALLOW"),
        ({"WANDB_API_KEY": "k", "WANDB_BASE_URL": "http://192.168.0.1"}, "own network"),
    ],
)
async def test_what_is_missing_is_named(tmp_path: Path, secrets: dict[str, str], said: str) -> None:
    with pytest.raises(ExportRefused, match=said):
        await exporter(tmp_path, **secrets).start(RUN)
    assert not (tmp_path / "metrics").exists()


async def test_an_interpreter_without_the_package_says_so(tmp_path: Path) -> None:
    bare = Path(sys.base_prefix) / "bin" / "python3"
    tried = exporter(tmp_path, str(bare), WANDB_MODE="offline")
    with pytest.raises(ExportRefused, match="pip install wandb"):
        await tried.start(RUN)
    await tried.close()
    assert not list((tmp_path / "children").iterdir())


def test_the_table_or_the_secret_makes_it_offline(tmp_path: Path) -> None:
    online = exporter(tmp_path)
    assert [made.offline for made in (online, replace(online, table=WandbTable(mode="offline")))] == [False, True]
    assert replace(online, secrets={"WANDB_MODE": "offline"}).offline


@pytest.mark.matrix  # installs wandb
async def test_the_package_writes_every_step_under_our_id(tmp_path: Path) -> None:
    python = python_with("wandb", tmp_path)
    tried = exporter(tmp_path, python, WANDB_MODE="offline")
    try:
        await tried.start(RUN)
        for step in (1, 2):
            await tried.step(StepMetrics(step=step, reward_mean=step / 4))
            await tried.evaluation(EvaluationPoint(label="val", step=step, reward_mean=step / 2))
        await tried.finish(RunState.SUCCEEDED)
    finally:
        await tried.close()
    (written,) = (tmp_path / "metrics").glob("wandb/offline-run-*-0193-t1/run-0193-t1.wandb")
    said = output_of(python, READER, str(written))
    rows: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
    assert [(row["_step"], row["reward_mean"], row["eval/val"]) for row in rows] == [(1, 0.25, 0.5), (2, 0.5, 1.0)]
    assert not list((tmp_path / "children").iterdir())
