"""What infra/kubernetes.md tells to type renders: its values file, its --set options, its keys of the Secret."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.infra.chart.render import NEEDED, complaints, containers, merged, render
from tests.infra.tools import ROOT, needs_tools

TEXT = (ROOT / "infra/kubernetes.md").read_text()


def nested(path: str, value: str) -> dict[str, Any]:
    head, _, rest = path.partition(".")
    return {head: nested(rest, value) if rest else yaml.safe_load(value)}


def options(command: str) -> dict[str, Any]:
    pairs = (pair.partition("=") for text in re.findall(r"--set (\S+)", command) for pair in text.split(","))
    return merged(*(nested(path, value) for path, _, value in pairs))


@needs_tools
def test_the_values_that_it_shows_are_taken() -> None:
    (shown,) = re.findall(r"<<'END'\n(.*?)\nEND", TEXT, re.DOTALL)
    values = yaml.safe_load(shown.replace("sha256:...", f"sha256:{'1' * 64}"))
    assert not [said for one in render(values) for said in complaints(one, "v1.33.0")]


@needs_tools
def test_every_command_of_helm_is_taken() -> None:
    commands = re.findall(r"^helm (?:.*\\\n)*.*", TEXT, re.MULTILINE)
    made = [render(options(command)) for command in commands]
    sets = [{one["metadata"]["name"] for one in each if one["kind"] == "StatefulSet"} for each in made]
    trial = {"hub-postgres", "hub-redis", "hub-s3"}
    assert sets == [set(), {"hub-worker-eval"}, {"hub-worker-gpu"}, set(), trial, {"hub-worker-build"}]


@needs_tools
def test_the_keys_of_the_secret_are_those_that_are_read() -> None:
    trial = {name: {"enabled": True} for name in ("postgres", "redis", "s3")}
    read = {
        variable["valueFrom"]["secretKeyRef"]["key"]
        for values in ({}, {"trial": trial})
        for _, one, _ in containers(render(values))
        for variable in one.get("env", ())
        if variable.get("valueFrom", {}).get("secretKeyRef", {}).get("name") == NEEDED["hub"]["secret"]
    }
    table = TEXT.partition("| key of")[2].partition("```")[0]
    assert set(re.findall(r"`([A-Z0-9_]+)`", table)) == read
