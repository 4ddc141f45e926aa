"""An authority of one's own: whatever calls other servers trusts what the operator's ConfigMap holds."""

from __future__ import annotations

import pytest

from tests.infra.chart.render import merged, pods, render
from tests.infra.chart.test_rendering import SETS
from tests.infra.tools import needs_tools

pytestmark = needs_tools
OWN = {"certificates": {"configMap": "authorities", "key": "all.pem"}}
CALLERS = {"HUB_DATA", "WORKER_DATA"}


@pytest.mark.parametrize("name", ["pools", "workers alone", "ray"])
def test_every_process_of_ours_trusts_them(name: str) -> None:
    for where, pod in pods(render(merged(SETS[name], OWN))):
        volumes = [one for one in pod["spec"].get("volumes", ()) if one["name"] == "certificates"]
        for one in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            told = {variable["name"]: variable.get("value") for variable in one.get("env", ())}
            if CALLERS & set(told):
                assert told["SSL_CERT_FILE"] == told["AWS_CA_BUNDLE"] == "/certificates/bundle.pem", where
                assert "/certificates" in {mount["mountPath"] for mount in one["volumeMounts"]}, where
                (volume,) = volumes
                items = [{"key": "all.pem", "path": "bundle.pem"}]
                assert volume["configMap"] == {"name": "authorities", "items": items}, where


def test_otherwise_the_images_authorities_count() -> None:
    assert "certificates" not in str(render(SETS["pools"]))
