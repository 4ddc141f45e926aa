"""Renders the chart with Helm itself and finds what is wrong with the result by Kubernetes' own schemas."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from tests.infra.tools import ROOT, TOOLS

CHART = ROOT / "infra/helm/environments-hub"
RELEASES = ("v1.33.0", "v1.37.0")
Manifest = dict[str, Any]
NEEDED: dict[str, Any] = {
    "hub": {"url": "https://hub.example.org", "secret": "hub"},
    "storage": {"bucket": "hub", "publicEndpointUrl": "https://s3.example.org"},
}


class Refused(Exception):
    """Helm does not take the values; the message is what a user reads."""


def merged(*values: dict[str, Any]) -> dict[str, Any]:
    """As Helm merges several files of values."""
    found: dict[str, Any] = {}
    for one in values:
        for key, value in one.items():
            both = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = merged(found[key], value) if both else value
    return found


def render(*values: dict[str, Any]) -> list[Manifest]:
    """What `helm install hub` would apply with NEEDED and `values`. Raises Refused."""
    return [json.loads(text) for text in _render(json.dumps(merged(NEEDED, *values), sort_keys=True))]


@cache
def _render(values: str) -> tuple[str, ...]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values)
        file.flush()
        command = [TOOLS / "helm", "template", "hub", CHART, "--namespace", "lab", "--values", file.name]
        home = {"HOME": tempfile.gettempdir(), "PATH": "/nowhere"}
        done = subprocess.run(command, env=home, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise Refused(done.stderr)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(json.dumps(one) for one in yaml.load_all(done.stdout, Loader=loader) if one)


@cache
def _validators(release: str) -> dict[tuple[str, str], Draft202012Validator]:
    """(apiVersion, kind) -> validator: Kubernetes' own, and for other makers' kinds those kept in crds.json."""
    schema = json.loads((TOOLS / f"kubernetes-{release}.json").read_text())
    found = {}
    for name, definition in schema["$defs"].items():
        for known in definition.get("x-kubernetes-group-version-kind", ()):
            version = f"{known['group']}/{known['version']}" if known["group"] else known["version"]
            part = schema | {"$ref": f"#/$defs/{name}"}
            found[version, known["kind"]] = Draft202012Validator(part)
    for place, part in json.loads((Path(__file__).parent / "crds.json").read_text()).items():
        version, kind = place.rsplit("/", 1)
        found[version, kind] = Draft202012Validator(part)
    return found


def complaints(manifest: Manifest, release: str) -> Iterator[str]:
    """What Kubernetes would refuse of a manifest; null as a value is refused by us, since it is never meant."""
    validator = _validators(release).get((manifest["apiVersion"], manifest["kind"]))
    where = f"{manifest['kind']} {manifest['metadata']['name']}"
    if validator is None:
        yield f"{where}: {release} knows no {manifest['apiVersion']}"
        return
    for error in validator.iter_errors(manifest):
        yield f"{where}: {error.json_path}: {error.message[:200]}"
    for part, template in ray_pods(manifest):
        for error in _validators(release)["v1", "PodTemplate"].iter_errors({"template": template}):
            yield f"{where}: {part}: {error.json_path}: {error.message[:200]}"
    yield from (f"{where}: {path} is null" for path in nulls(manifest, "$"))


def nulls(value: object, path: str) -> Iterator[str]:
    """Where a template has left a key without a value."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from nulls(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from nulls(inner, f"{path}[{index}]")


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """(name of its owner, pod template) of all pods."""
    for manifest in manifests:
        spec = manifest.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield f"{manifest['kind']} {manifest['metadata']['name']}", spec["template"]
        for part, template in ray_pods(manifest):
            yield f"{manifest['kind']} {manifest['metadata']['name']}, {part}", template


def ray_pods(manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
    """(group, pod template) of a RayCluster, whose own schema says nothing of pods here."""
    if manifest["kind"] == "RayCluster":
        yield "head", manifest["spec"]["headGroupSpec"]["template"]
        yield from ((group["groupName"], group["template"]) for group in manifest["spec"]["workerGroupSpecs"])


def containers(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest, bool]]:
    """(where, container, whether it stays) of all containers."""
    for owner, pod in pods(manifests):
        lasting = not owner.startswith(("Job", "CronJob"))
        for part in ("initContainers", "containers"):
            for one in pod["spec"].get(part, ()):
                yield f"{owner}: {one['name']}", one, lasting and part == "containers"


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector means a pod with such labels."""
    expressions = selector.get("matchExpressions", ())
    assert all(one["operator"] == "In" for one in expressions)
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    return wanted and all(labels.get(one["key"]) in one["values"] for one in expressions)
