"""What the chart sets, hub and workers take: the environment of each container is read by their own settings."""

from __future__ import annotations

import os
import re

import pytest

from hub.config.environment import HubEnvironment
from tests.infra.chart.render import Manifest, containers, render
from tests.infra.chart.test_rendering import SETS
from tests.infra.tools import needs_tools
from workers.settings import WorkerEnvironment

pytestmark = needs_tools
FROM_SECRETS = {
    "HUB_SECRET_KEY": "x" * 32,
    "HUB_DATABASE_URL": "postgresql://hub:hub@db/hub",
    "HUB_BROKER_URL": "redis://redis/0",
    "WORKER_TOKEN": "hubw_x",
}
FIELDS = {"status.podIP": "10.1.2.3"}


def environment(container: Manifest) -> dict[str, str]:
    """As kubelet makes it; optional keys of Secrets are absent. Raises KeyError for a reference to what comes later."""
    found: dict[str, str] = {}
    for variable in container["env"]:
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            found[variable["name"]] = FIELDS[source["fieldRef"]["fieldPath"]]
        elif "secretKeyRef" in source:
            if not source["secretKeyRef"].get("optional"):
                found[variable["name"]] = FROM_SECRETS.get(variable["name"], "secret")
        else:
            found[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], variable["value"])
    return found


@pytest.mark.parametrize("name", SETS)
def test_every_container_starts_with_its_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {key: value for key, value in os.environ.items() if not key.startswith(("HUB_", "WORKER_"))}
    for where, container, _ in containers(render(SETS[name])):
        with monkeypatch.context() as patch:
            for key in set(os.environ) - set(before):
                patch.delenv(key)
            env = environment(container) if "env" in container else {}
            for key, value in env.items():
                patch.setenv(key, value)
            if "HUB_DATA" in env:
                hub = HubEnvironment()
                assert {"hub-web", "hub-web.lab", "10.1.2.3"} <= set(hub.allowed_hosts), where
                assert hub.resolved_database_url().startswith("postgresql://hub:")
                assert hub.resolved_broker_url().startswith("redis://")
            if "WORKER_DATA" in env:  # a worker, or a host of Ray's cluster, which asks for no runs
                worker = WorkerEnvironment()
            if "WORKER_TOKEN" in env:
                assert worker.serve_address == "10.1.2.3"
                assert (worker.serve_host == "0.0.0.0") is bool(worker.serve_runs + worker.sandbox_runs), where
