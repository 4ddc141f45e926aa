"""Dashboards and alerts ask for metrics that the hub has, with labels that they have; each alert has its runbook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.db import connection
from prometheus_client import Metric

import hub.config.asgi  # noqa: F401  brings the counters of all apps, as in a web server
from hub.api.gauges import DatabaseGauges
from hub.core.metrics import REGISTRY

INFRA = Path(__file__).parents[2] / "infra"
BOARDS = sorted((INFRA / "grafana").glob("*.json"))
RULES = [
    rule for group in yaml.safe_load((INFRA / "prometheus/alerts.yml").read_text())["groups"] for rule in group["rules"]
]
ONLY_POSTGRES = {"hub_database_connections", "hub_database_connections_max"}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}


def names(metrics: Iterator[Metric]) -> set[str]:
    return {metric.name + suffix for metric in metrics for suffix in SUFFIXES.get(metric.type, ("",))}


def asked(expression: str) -> set[str]:
    return set(re.findall(r"\bhub_\w+", expression))


def expressions() -> Iterator[tuple[str, str]]:
    for path in BOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


@pytest.fixture
def exported(db: None) -> set[str]:
    found = names(iter(REGISTRY.collect())) | names(iter(DatabaseGauges().collect()))
    return found | (ONLY_POSTGRES if connection.vendor == "sqlite" else set())


def test_dashboards_and_alerts_name_only_what_the_hub_exports(exported: set[str]) -> None:
    unknown = {where: missing for where, expression in expressions() if (missing := asked(expression) - exported)}
    assert unknown == {}


def test_everything_that_is_exported_is_documented_and_shown(exported: set[str]) -> None:
    told = (INFRA / "production.md").read_text()
    base = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}
    assert {name for name in base if f"`{name}`" not in told} == set()
    shown = {re.sub(r"_bucket$", "", name) for _, expression in expressions() for name in asked(expression)}
    assert base - shown == set()


def test_there_are_two_dashboards_with_identities_of_their_own() -> None:
    boards: list[dict[str, Any]] = [json.loads(path.read_text()) for path in BOARDS]
    assert sorted(board["title"] for board in boards) == ["Hub", "Workers and runs"]
    for board in boards:
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert len({board["uid"] for board in boards}) == 2


def test_every_alert_leads_to_its_heading_in_the_runbook_and_every_heading_has_its_alert() -> None:
    headings = re.findall(r"^## (\w+)$", (INFRA / "runbook.md").read_text(), re.MULTILINE)
    assert [rule["alert"] for rule in RULES] == headings
    assert [rule["annotations"]["runbook"] for rule in RULES] == [
        f"infra/runbook.md#{name.lower()}" for name in headings
    ]
    assert len(headings) == 11


def test_what_the_runbook_names_exists() -> None:
    text = (INFRA / "runbook.md").read_text()
    services = set(yaml.safe_load((INFRA / "compose.yaml").read_text())["services"])
    assert set(re.findall(r"(?:logs --\w+ \w+|ps|up -d) (\w+)`", text)) <= services
    known = {f"HUB_{name.upper()}" for name in type(settings.HUB).model_fields}
    assert set(re.findall(r"`(HUB_\w+)`", text)) <= known
    titles = {panel["title"] for path in BOARDS for panel in json.loads(path.read_text())["panels"]}
    assert set(re.findall(r'"([A-Z][^"]+)"', text)) <= titles
