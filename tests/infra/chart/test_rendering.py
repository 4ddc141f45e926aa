"""The chart renders by Helm with every set of values, and Kubernetes' schemas take the result."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from hub.config.environment import HubEnvironment
from tests.infra.chart.render import CHART, RELEASES, Refused, complaints, containers, merged, pods, render
from tests.infra.tools import ROOT, needs_tools
from workers.cluster.node import MEMORY_LABEL

pytestmark = needs_tools
SECRET_SETTING = re.compile(r"secret_key$|^secrets_keys$|_token$|_secret$|access_key|database_url|broker_url|mail_url")
KUBERNETES_OWN = {"requests", "limits", "cpu", "memory", "type"}
TOKEN = {"token": {"secret": "workers"}}
POOLS = {name: {"enabled": True, **TOKEN} for name in ("build", "eval", "gpu")}
TRIAL = {name: {"enabled": True} for name in ("postgres", "redis", "s3")}
EGRESS = [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"protocol": "TCP", "port": 8080}]}]
BACKUPS = {"HUB_BACKUP_DESTINATION": "s3://backups/hub", "HUB_BACKUP_RECIPIENTS": f'["age1{"q" * 58}"]'}
EVERYTHING: dict[str, Any] = {
    "pools": {name: pool | {"scaling": {"enabled": True}} for name, pool in POOLS.items()},
    "monitoring": {"serviceMonitor": True, "rules": True, "dashboards": True, "labels": {"release": "prometheus"}},
    "traces": {
        "endpoint": "http://tempo.monitoring:4318",
        "secret": "traces",
        "settings": {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": 0.1},
    },
    "certificates": {"configMap": "authorities"},
    "proxy": {"secret": "proxy", "noProxy": [".lab.example"]},
    "trial": TRIAL | {"storageClass": "fast"},
    "ingress": {"className": "nginx", "clusterIssuer": "letsencrypt", "annotations": {"a": "b"}},
    "imagePullSecrets": [{"name": "registry"}],
    "backup": {"enabled": True, "keep": 7},
    "hub": {
        "image": {"digest": f"sha256:{'0' * 64}"},
        "settings": {"HUB_OWNER_QUOTA_GB": 100, "HUB_LOG_FORMAT": "json", "HUB_DATABASE_POOL": 5, **BACKUPS},
        "allowedHosts": ["hub.internal"],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "annotations": {"a": "b"},
    },
    "worker": {
        "settings": {"WORKER_LOG_FORMAT": "json", "WORKER_GPUS": "all"},
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
RAY: dict[str, Any] = {
    "pools": POOLS,
    "ray": {"enabled": True, "token": {"secret": "ray"}, "hosts": {"gpuMemoryMb": 80_000}},
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
    "ray": RAY,
    "ray on processors": merged(RAY, {"ray": {"hosts": {"gpus": 0}, "runtimeClassName": "nvidia", "egress": EGRESS}}),
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
        ({"backup": {"enabled": True}}, "backup: hub.settings.HUB_BACKUP_DESTINATION must be s3://"),
        (
            {"backup": {"enabled": True}, "hub": {"settings": {"HUB_BACKUP_DESTINATION": "s3://b"}}},
            "backup: hub.settings.HUB_BACKUP_RECIPIENTS, public keys",
        ),
        ({"worker": {"security": {"mode": "root"}}}, "value must be one of 'userns', 'privileged'"),
        ({"pools": {"eval": {"enabled": True}}}, "pools.eval.token.secret: the name of a Secret"),
        ({"pools": {"eval": {"slots": {"serve": 1}}}}, "at '/pools/eval/slots': additional properties 'serve'"),
        ({"pools": {"big": {"enabled": True, **TOKEN}}}, "pools.big.slots: runs at once by queue"),
        ({"hub": {"enabled": False}, "pools": POOLS}, "worker.hubUrl: the hub's address"),
        (
            {"traces": {"endpoint": "http://a", "settings": {"OTEL_EXPORTER_OTLP_HEADERS": "x"}}},
            "a secret belongs into",
        ),
        ({"ray": {"enabled": True}}, "ray.pool: the name of an enabled pool"),
        ({"ray": {"enabled": True}, "pools": POOLS}, "ray.token.secret: the name of a Secret"),
        (merged(RAY, {"pools": {"gpu": {"replicas": 2}}}), "pools.gpu must have one replica and no scaling"),
        (merged(RAY, {"pools": {"gpu": {"scaling": {"enabled": True}}}}), "pools.gpu must have one replica and no"),
        ({"nameOverride": "n" * 40, "pools": POOLS}, "-worker-build is too long by 1 for a StatefulSet"),
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


def test_settings_count_before_what_the_chart_sets_itself() -> None:
    for where, one, _ in containers(render(EVERYTHING)):
        named = {variable["name"]: variable.get("value") for variable in one.get("env", ())}
        assert named.get("HUB_DATABASE_POOL", "5") == "5", where
        assert named.get("WORKER_GPUS", "all") == "all", where


def test_every_secret_setting_of_the_hub_comes_from_its_secret_and_from_nowhere_else() -> None:
    secrets = {f"HUB_{name.upper()}" for name in HubEnvironment.model_fields if SECRET_SETTING.search(name)}
    assert {"HUB_MAIL_URL", "HUB_OIDC_CLIENT_SECRET", "HUB_BACKUP_S3_SECRET_ACCESS_KEY"} < secrets
    for where, one, _ in containers(render()):
        named = {variable["name"]: variable.get("valueFrom", {}) for variable in one["env"]}
        assert {named[name]["secretKeyRef"]["name"] for name in secrets} == {"hub"}, where
    for name in secrets:
        with pytest.raises(Refused, match=f"hub.settings.{name}: a secret belongs into"):
            render({"hub": {"settings": {name: "x"}}})


def test_what_must_happen_daily_is_scheduled() -> None:
    jobs = {one["metadata"]["name"]: one["spec"] for one in render(EVERYTHING) if one["kind"] == "CronJob"}
    done = {}
    for name, job in jobs.items():
        pod = job["jobTemplate"]["spec"]["template"]["spec"]
        done[name] = [one["command"][2:] for one in (*pod.get("initContainers", ()), *pod["containers"])]
    assert done == {
        "hub-garbage": [["apply_retention"], ["collect_garbage"]],
        "hub-backup": [["backup", "--keep", "7"]],
        "hub-backup-verify": [["backup", "--verify"]],
    }


@pytest.mark.parametrize("name", ["n" * 40, f"{'n' * 37}-nn"])
def test_the_names_of_daily_jobs_are_short_enough_for_kubernetes(name: str) -> None:
    manifests = render({"nameOverride": name, "backup": {"enabled": True}, "hub": {"settings": BACKUPS}})
    jobs = [one["metadata"]["name"] for one in manifests if one["kind"] == "CronJob"]
    assert [job.rpartition("n-")[2] for job in jobs] == ["garbage", "backup", "backup-verify"]
    assert max(len(job) for job in jobs) <= 52
    assert not any("--" in job for job in jobs)


def test_one_worker_gives_runs_to_the_ray_cluster_and_is_a_host_of_it() -> None:
    manifests = render(RAY)
    (cluster,) = [one for one in manifests if one["kind"] == "RayCluster"]
    workers = {owner: pod for owner, pod in pods(manifests) if "-worker-" in owner}
    told = {owner: {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
            for owner, pod in workers.items()}  # fmt: skip
    assert [owner for owner, names in told.items() if "WORKER_RAY_ADDRESS" in names] == ["StatefulSet hub-worker-gpu"]
    gpu = told["StatefulSet hub-worker-gpu"]
    assert (gpu["WORKER_RAY_ADDRESS"], gpu["WORKER_RAY_NODE"]) == ("hub-ray-head-svc.lab:6379", "true")
    assert cluster["metadata"]["name"] == "hub-ray"  # of which KubeRay makes the name of the head's Service
    head, (hosts,) = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    assert head["rayStartParams"]["num-cpus"] == "0"  # else runs would count it as a host
    assert hosts["labels"] == {MEMORY_LABEL: "80000"}
    assert hosts["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 8


def test_every_pod_of_the_ray_cluster_asks_for_its_token() -> None:
    for owner, pod in pods(render(RAY)):
        env = {one["name"]: one for one in pod["spec"]["containers"][0].get("env", ())}
        if owner.startswith("RayCluster") or owner.endswith("worker-gpu"):
            assert env["RAY_AUTH_MODE"]["value"] == "token", owner
            assert env["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "ray", "key": "auth_token"}
            assert env["RAY_USAGE_STATS_ENABLED"]["value"] == "0"
        else:
            assert "RAY_AUTH_TOKEN" not in env, owner


def test_the_ray_cluster_is_of_the_images_release() -> None:
    locked = re.search(r"^ray==(\S+)", (ROOT / "infra/docker/worker.lock").read_text(), re.MULTILINE)
    assert locked
    assert yaml.safe_load((CHART / "values.yaml").read_text())["ray"]["version"] == locked[1]


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
