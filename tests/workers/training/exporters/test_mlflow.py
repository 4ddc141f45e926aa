"""The MLflow exporter with a server that is busy, closed, somebody else's, or inside the network."""

from __future__ import annotations

import re

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from envhub.protocol.models.catalog import OutboundPolicy
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.trainer import MlflowTable
from pydantic import ValidationError

from tests.fakes.mlflow import FakeMlflow
from workers.training.exporters.interface import ExportFailed, ExportRefused, RunInfo
from workers.training.exporters.mlflow import Mlflow, metric_key
from workers.training.exporters.mlflow_server import LARGEST_ANSWER

HERE = OutboundPolicy(allow_loopback=True)
RUN = RunInfo("t1", "n", {})


async def started(uri: str, policy: OutboundPolicy = HERE, **secrets: str) -> Mlflow:
    exporter = Mlflow(MlflowTable(tracking_uri=uri), secrets, policy)
    try:
        await exporter.start(RUN)
    except BaseException:
        await exporter.close()
        raise
    return exporter


async def test_a_busy_server_is_asked_again_with_the_same() -> None:
    async with FakeMlflow() as server:
        exporter = await started(server.uri)
        server.fail = [503]
        with pytest.raises(ExportFailed, match="503"):
            await exporter.step(StepMetrics(step=1, reward_mean=0.5))
        await exporter.step(StepMetrics(step=1, reward_mean=0.5))
        await exporter.close()
        assert [row["step"] for row in server.runs[0]["history"]["reward_mean"]] == [1]


async def test_a_server_that_is_away_may_come_back() -> None:
    with pytest.raises(ExportFailed):
        await started("http://127.0.0.1:9")


async def test_the_token_is_sent_and_a_missing_one_is_named() -> None:
    async with FakeMlflow(token="s3cret") as server:
        await (await started(server.uri, MLFLOW_TRACKING_TOKEN="s3cret")).close()
        with pytest.raises(ExportRefused, match="MLFLOW_TRACKING_TOKEN"):
            await started(server.uri)


async def test_an_address_inside_the_network_is_refused() -> None:
    async with FakeMlflow() as server:
        with pytest.raises(ExportRefused, match="HUB_OUTBOUND_ALLOW"):
            await started(server.uri, OutboundPolicy())
        assert server.calls == []


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>", "is tracking_uri an MLflow server"),
        (302, b"", "302"),
        (200, b" " * (LARGEST_ANSWER + 1), "too large"),
    ],
)
async def test_a_server_that_is_no_mlflow_ends_the_export(status: int, body: bytes, said: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers={"Location": "http://127.0.0.1:9/"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        with pytest.raises(ExportRefused, match=re.escape(said)):
            await started(f"http://127.0.0.1:{server.port}")


@pytest.mark.parametrize(("name", "key"), [("a/b", "a/b"), ("a: b%", "a_ b_"), ("../x", "_/x"), ("é", "_")])
def test_a_key_is_one_that_mlflow_takes(name: str, key: str) -> None:
    assert metric_key(name) == key


@pytest.mark.parametrize("uri", ["databricks", "file:///tmp/x", "http://", "http://h/?a=1"])
def test_only_servers_can_be_named(uri: str) -> None:
    with pytest.raises(ValidationError):
        MlflowTable(tracking_uri=uri)
