"""The chart renders by Helm with every set of values, and Kubernetes' schemas take the result."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.infra.chart.render import CHART, RELEASES, Refused, complaints, containers, render
from tests.infra.tools import ROOT, needs_tools

pytestmark = needs_tools
KUBERNETES_OWN = {"requests", "limits", "cpu", "memory", "type"}
TOKEN = {"token": {"secret": "workers"}}
POOLS = {name: {"enabled": True, **TOKEN} for name in ("build", "eval", "gpu")}
TRIAL = {name: {"enabled": True} for name in ("postgres", "redis", "s3")}
EGRESS = [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"protocol": "TCP", "port": 8080}]}]
EVERYTHING: dict[str, Any] = {
    "pools": {name: pool | {"scaling": {"enabled": True}} for name, pool in POOLS.items()},
    "monitoring": {"serviceMonitor": True, "rules": True, "dashboards": True, "labels": {"release": "prometheus"}},
    "traces": {
        "endpoint": "http://tempo.monitoring:4318",
        "secret": "traces",
        "settings": {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": 0.1},
    },
    "trial": TRIAL | {"storageClass": "fast"},
    "ingress": {"className": "nginx", "clusterIssuer": "letsencrypt", "annotations": {"a": "b"}},
    "imagePullSecrets": [{"name": "registry"}],
    "hub": {
        "image": {"digest": f"sha256:{'0' * 64}"},
        "settings": {"HUB_OWNER_QUOTA_GB": 100, "HUB_LOG_FORMAT": "json"},
        "allowedHosts": ["hub.internal"],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "annotations": {"a": "b"},
    },
    "worker": {
        "settings": {"WORKER_LOG_FORMAT": "json"},
        "disk": {"storageClass": "fast", "keepWhenScaledDown": False},
        "runtimeClassName": "nvidia",
        "priorityClassName": "low",
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "annotations": {"a": "b"},
        "shm": "1Gi",
    },
    "networkPolicy": {
        "hubEgress": EGRESS,
        "workerEgress": EGRESS,
        "database": {"to": [{"ipBlock": {"cidr": "10.2.0.7/32"}}]},
        "workers": [{"namespaceSelector": {}}],
    },
}
WORKERS_ALONE: dict[str, Any] = {
    "hub": {"enabled": False},
    "worker": {"hubUrl": "https://hub.example.org"},
    "networkPolicy": {"hub": [{"namespaceSelector": {}}]},
    "pools": POOLS,
}
SETS: dict[str, dict[str, Any]] = {
    "default": {},
    "pools": {"pools": POOLS},
    "everything": EVERYTHING,
    "workers alone": WORKERS_ALONE,
    "privileged": {"pools": POOLS, "worker": {"security": {"mode": "privileged", "appArmorProfile": None}}},
    "own profile": {
        "pools": POOLS,
        "worker": {"security": {"seccompProfile": {"type": "Localhost", "localhostProfile": "hub.json"}}},
    },
    "a pool of one's own": {"pools": {"big": {"enabled": True, "slots": {"eval": 8}, **TOKEN}, "gpu": None}},
    "little": {
        "ingress": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "garbage": {"enabled": False},
        "pools": POOLS,
        "worker": {"doctor": False, "disk": {"persistent": False, "size": "20Gi"}},
    },
    **{f"trial {name}": {"trial": {name: {"enabled": True}}} for name in TRIAL},
    **{f"only {name}": {"monitoring": {name: True}} for name in ("serviceMonitor", "rules", "dashboards")},
}


@pytest.mark.parametrize("name", SETS)
def test_kubernetes_takes_what_is_rendered(name: str) -> None:
    manifests = render(SETS[name])
    assert manifests
    assert [said for release in RELEASES for one in manifests for said in complaints(one, release)] == []
    identities = [(one["kind"], one["metadata"]["name"]) for one in manifests]
    assert len(set(identities)) == len(identities)


def test_the_schemas_refuse_what_kubernetes_would() -> None:
    (web,) = [one for one in render() if (one["kind"], one["metadata"]["name"]) == ("Deployment", "hub-web")]
    web["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    web["spec"]["replicas"] = "two"
    assert len(list(complaints(web, RELEASES[0]))) == 2


def names(values: dict[str, Any]) -> set[str]:
    inner = [names(value) for value in values.values() if isinstance(value, dict)]
    return set(values).union(*inner)


def test_every_value_is_used_by_a_template() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values["pools"] = {}  # as in `worker`, which is merged with them
    taken_whole = ("resources", "image", "seccompProfile", "appArmorProfile", "networkPolicy", "settings", "slots")
    for part in taken_whole:
        values.pop(part, None)
        values["worker"].pop(part, None)
    assert {name for name in names(values) if not re.search(rf"[.\"]{name}\b", templates)} <= KUBERNETES_OWN


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hub": {"url": ""}}, "hub.url: the address that users type"),
        ({"hub": {"secret": ""}}, "hub.secret: the name of a Secret"),
        ({"storage": {"publicEndpointUrl": ""}}, "storage.publicEndpointUrl"),
        ({"hub": {"replicas": "two"}}, "at '/hub/replicas': got string, want integer"),
        ({"hub": {"settings": {"HUB_SECRET_KEY": "x"}}}, "hub.settings.HUB_SECRET_KEY: a secret belongs into"),
        ({"worker": {"security": {"mode": "root"}}}, "value must be one of 'userns', 'privileged'"),
        ({"pools": {"eval": {"enabled": True}}}, "pools.eval.token.secret: the name of a Secret"),
        ({"pools": {"eval": {"slots": {"serve": 1}}}}, "at '/pools/eval/slots': additional properties 'serve'"),
        ({"pools": {"big": {"enabled": True, **TOKEN}}}, "pools.big.slots: runs at once by queue"),
        ({"hub": {"enabled": False}, "pools": POOLS}, "worker.hubUrl: the hub's address"),
        (
            {"traces": {"endpoint": "http://a", "settings": {"OTEL_EXPORTER_OTLP_HEADERS": "x"}}},
            "a secret belongs into",
        ),
        ({"typo": 1}, "additional properties 'typo' not allowed"),
    ],
)
def test_what_is_wrong_in_the_values_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words.replace("(", r"\(")):
        render(values)


def test_hub_and_workers_send_their_traces_to_one_collector() -> None:
    manifests = render(EVERYTHING)
    for where, one, _ in containers(manifests):
        names = {variable["name"]: variable for variable in one.get("env", ())}
        if "HUB_BASE_URL" in names or "WORKER_HUB_URL" in names:
            assert names["OTEL_EXPORTER_OTLP_ENDPOINT"]["value"] == "http://tempo.monitoring:4318", where
            assert names["OTEL_EXPORTER_OTLP_HEADERS"]["valueFrom"]["secretKeyRef"]["name"] == "traces"
            assert names["OTEL_TRACES_SAMPLER_ARG"]["value"] == "0.1"
    policies = [one for one in manifests if one["kind"] == "NetworkPolicy"]
    for name in ("hub-hub", "hub-workers"):
        (policy,) = [one for one in policies if one["metadata"]["name"] == name]
        assert 4318 in {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}, name


def test_rules_and_dashboards_are_the_files_themselves() -> None:
    manifests = render({"monitoring": {"rules": True, "dashboards": True}})
    (rules,) = [one for one in manifests if one["kind"] == "PrometheusRule"]
    assert rules["spec"] == yaml.safe_load((ROOT / "infra/prometheus/alerts.yml").read_text())
    shown = {name: text for one in manifests if one["kind"] == "ConfigMap" for name, text in one["data"].items()}
    assert shown == {path.name: path.read_text() for path in (ROOT / "infra/grafana").glob("*.json")}


def test_the_chart_is_of_the_release_that_it_starts() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert f"appVersion: {version[1]}\n" in (CHART / "Chart.yaml").read_text()
