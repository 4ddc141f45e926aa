"""A network that is left by a proxy only: whatever calls other servers knows it, and reaches the cluster past it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.chart.render import merged, pods, render
from tests.infra.chart.test_certificates import CALLERS
from tests.infra.chart.test_rendering import SETS
from tests.infra.tools import needs_tools

pytestmark = needs_tools
INSIDE = {"localhost", "127.0.0.1", ".svc", ".cluster.local", "hub-web", "hub-s3", ".lab.example"}
TRACES = {"traces": {"endpoint": "http://tempo.monitoring:4318"}}


def told(values: dict[str, Any]) -> list[dict[str, dict[str, Any]]]:
    """The environments of all containers that call other servers, each variable by its name."""
    containers = [
        one
        for _, pod in pods(render(values))
        for one in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    ]
    found = [{variable["name"]: variable for variable in one.get("env", ())} for one in containers]
    return [one for one in found if CALLERS & set(one)]


@pytest.mark.parametrize("name", ["pools", "workers alone", "ray"])
def test_every_process_of_ours_knows_it(name: str) -> None:
    own = {"proxy": {"url": "http://proxy.example.org:3128", "noProxy": [".lab.example"]}, **TRACES}
    found = told(merged(SETS[name], own))
    assert found
    for one in found:
        assert one["HTTPS_PROXY"]["value"] == "http://proxy.example.org:3128"
        assert one["HTTP_PROXY"]["value"] == "$(HTTPS_PROXY)"
        assert INSIDE | {"tempo.monitoring"} <= set(one["NO_PROXY"]["value"].split(","))


def test_one_with_a_password_lies_in_a_secret() -> None:
    for one in told(merged(SETS["pools"], {"proxy": {"secret": "proxy", "key": "address"}})):
        assert one["HTTPS_PROXY"]["valueFrom"] == {"secretKeyRef": {"name": "proxy", "key": "address"}}
        assert list(one).index("HTTPS_PROXY") < list(one).index("HTTP_PROXY"), "what it is made from comes first"


def test_otherwise_there_is_none() -> None:
    assert "_PROXY" not in str(render(SETS["pools"]))
