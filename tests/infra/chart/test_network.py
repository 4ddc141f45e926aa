"""Who reaches whom, by the chart's network policies: nobody, but for what is listed here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.infra.chart.render import Manifest, pods, render, selects
from tests.infra.chart.test_rendering import EVERYTHING, POOLS, RAY, SETS, WORKERS_ALONE
from tests.infra.tools import needs_tools

pytestmark = needs_tools
SERVED = 40_000  # where a model or a sandbox listens: one of Linux' ephemeral ports
PORTS = (5432, 6379, 8000, 9000, 32_767, SERVED, 61_000)
HUB = ("web", "sweeper", "migrate", "garbage", "backup", "backup-verify")
SERVING = ("worker-eval", "worker-gpu")
WORKERS = ("worker-build", *SERVING)


def policies(manifests: list[Manifest]) -> list[Manifest]:
    return [one["spec"] for one in manifests if one["kind"] == "NetworkPolicy"]


def components(manifests: list[Manifest]) -> dict[str, dict[str, str]]:
    """Component -> labels of its pods."""
    found = [pod["metadata"]["labels"] for _, pod in pods(manifests)]
    return {labels["app.kubernetes.io/component"]: labels for labels in found}


def permits(rule: Manifest, direction: str, other: dict[str, str], port: int) -> bool:
    """Whether a rule lets a pod of this release through. Addresses are those of nobody in the cluster."""
    ports = [(one["port"], one.get("endPort", one["port"])) for one in rule["ports"] if one["protocol"] == "TCP"]
    peers = [one for one in rule.get(direction, ()) if "namespaceSelector" not in one and "ipBlock" not in one]
    is_peer = direction not in rule or any(selects(one["podSelector"], other) for one in peers)
    return is_peer and any(first <= port <= last for first, last in ports)


def reached(manifests: list[Manifest]) -> Iterator[tuple[str, str, int]]:
    """(from, to, port) of all that both sides let through."""
    rules, known = policies(manifests), components(manifests)
    for sender, mine in known.items():
        for receiver, theirs in known.items():
            out = [rule for one in rules if selects(one["podSelector"], mine) for rule in one.get("egress", ())]
            into = [rule for one in rules if selects(one["podSelector"], theirs) for rule in one.get("ingress", ())]
            for port in PORTS:
                if any(permits(rule, "to", theirs, port) for rule in out) and any(
                    permits(rule, "from", mine, port) for rule in into
                ):
                    yield sender, receiver, port


def test_with_all_parts_each_reaches_what_it_needs_and_nothing_else() -> None:
    expected = {("web", worker, SERVED) for worker in SERVING}
    expected |= {(worker, "web", 8000) for worker in WORKERS}
    expected |= {(one, part, port) for one in HUB for part, port in (("redis", 6379), ("s3", 9000), ("postgres", 5432))}
    expected |= {(worker, part, port) for worker in WORKERS for part, port in (("redis", 6379), ("s3", 9000))}
    assert set(reached(render(EVERYTHING))) == expected


def test_with_parts_elsewhere_only_hub_and_workers_reach_each_other() -> None:
    expected = {("web", worker, SERVED) for worker in SERVING} | {(worker, "web", 8000) for worker in WORKERS}
    assert set(reached(render({"pools": POOLS}))) == expected


def test_the_pods_of_a_ray_cluster_reach_each_other_and_nobody_else() -> None:
    inside = ("ray-head", "ray-hosts", "worker-gpu")
    mesh = {(one, other, port) for one in inside for other in inside for port in PORTS}
    expected = {("web", worker, SERVED) for worker in SERVING} | {(worker, "web", 8000) for worker in WORKERS}
    assert set(reached(render(RAY))) == expected | mesh


def test_a_worker_of_which_nothing_is_asked_is_called_by_nobody() -> None:
    quiet = {name: pool | {"serveRuns": 0, "sandboxRuns": 0} for name, pool in POOLS.items()}
    assert {receiver for _, receiver, _ in reached(render({"pools": quiet}))} == {"web"}


def test_workers_alone_are_called_from_where_the_hub_is() -> None:
    manifests = render(WORKERS_ALONE)
    assert set(reached(manifests)) == set()
    called = [rule["from"] for one in policies(manifests) for rule in one.get("ingress", ())]
    assert called == [WORKERS_ALONE["networkPolicy"]["hub"]] * len(SERVING)


@pytest.mark.parametrize("name", SETS)
def test_every_pod_is_closed_in_both_directions(name: str) -> None:
    manifests = render(SETS[name])
    for component, labels in components(manifests).items():
        mine = [one for one in policies(manifests) if selects(one["podSelector"], labels)]
        closed = {kind for one in mine for kind in one["policyTypes"]}
        assert closed == (set() if name == "little" else {"Ingress", "Egress"}), component


@pytest.mark.parametrize("name", SETS)
def test_no_rule_lets_everybody_in_or_reaches_clouds_metadata(name: str) -> None:
    for one in policies(render(SETS[name])):
        assert all(rule["from"] for rule in one.get("ingress", ()))
        for rule in one.get("egress", ()):
            assert rule["ports"]
            blocks = [peer["ipBlock"] for peer in rule.get("to", ()) if "ipBlock" in peer]
            assert all("169.254.0.0/16" in block["except"] for block in blocks if block["cidr"] == "0.0.0.0/0")
