"""The OpenAPI schema and its page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import Client
from envhub.protocol.base import ErrorBody

from hub.api.schema import EXAMPLE
from tests.factories.accounts import make_user

pytestmark = pytest.mark.django_db


def test_the_schema_names_every_kind_of_credentials(client: Client) -> None:
    schema = client.get("/api/v1/schema").json()
    assert set(schema["components"]["securitySchemes"]) >= {"api-token", "worker-or-run-token"}


def test_the_schema_describes_bodies_and_answers_by_their_wire_types(client: Client) -> None:
    schema = client.get("/api/v1/schema").json()
    claim = schema["paths"]["/api/v1/runs/{run_id}/claim"]["post"]
    assert claim["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/ClaimRequest"
    }
    assert claim["responses"]["200"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Claim"}
    assert "attempt" in schema["components"]["schemas"]["Claim"]["properties"]


def operations(client: Client) -> list[tuple[str, dict[str, Any]]]:
    paths = client.get("/api/v1/schema").json()["paths"]
    return [(f"{method} {path}", found) for path, methods in paths.items() for method, found in methods.items()]


def test_every_operation_says_what_a_refusal_looks_like(client: Client) -> None:
    schema, example = {"$ref": "#/components/schemas/ErrorBody"}, {}
    for name, operation in operations(client):
        refusal = operation["responses"]["default"]["content"]["application/json"]
        assert refusal["schema"] == schema, name
        example = refusal["example"]
    assert ErrorBody.model_validate(example).error.fields


def test_the_example_of_a_refusal_is_one(client: Client) -> None:
    client.force_login(make_user("alice"))
    body = {"environment": "alice/math", "model": "hub/tiny", "rollouts_per_example": 0}
    reply = client.post("/api/v1/evaluations", body, content_type="application/json")
    assert (reply.status_code, reply.json()) == (422, EXAMPLE.model_dump())


def test_every_parameter_is_described(client: Client) -> None:
    for name, operation in operations(client):
        assert all(parameter.get("description") for parameter in operation.get("parameters", ())), name


def test_every_list_names_its_cursor(client: Client) -> None:
    cursors = {"before", "after", "after_step", "cursor"}
    for name, operation in operations(client):
        content = operation["responses"].get("200", {}).get("content", {})
        if re.search("Page\\b", str(content)) and "LogPage" not in str(content) and name.startswith("get"):
            assert cursors & {parameter["name"] for parameter in operation["parameters"]}, name


@pytest.mark.parametrize(
    ("operation", "statuses"),
    [
        ("delete /api/v1/tokens/{token_id}", {"200"}),
        ("put /api/v1/secrets/{owner}/{name}", {"200", "201"}),
        ("post /api/v1/environments/{owner}/{name}/pushes/{push_id}/complete", {"200", "201"}),
        ("post /api/v1/environments/{owner}/{name}/versions/{version}/rebuild", {"202"}),
        ("post /api/v1/environments/{owner}/{name}/versions/{version}/check", {"202"}),
        ("post /api/v1/wheels", {"200", "201"}),
    ],
)
def test_the_schema_names_the_statuses_that_are_answered(client: Client, operation: str, statuses: set[str]) -> None:
    assert dict(operations(client))[operation]["responses"].keys() - {"default"} == statuses


def test_every_operation_says_what_it_does_in_one_line_and_each_part_what_it_holds(client: Client) -> None:
    described = {tag["name"] for tag in client.get("/api/v1/schema").json()["tags"] if tag["description"]}
    used = set[str]()
    for name, operation in operations(client):
        summary = operation["summary"]
        assert summary, name
        assert "\n" not in summary, name
        assert not summary.endswith("."), name
        used |= set(operation["tags"])
    assert described == used


def test_the_schema_is_valid_openapi_without_a_warning(tmp_path: Path) -> None:
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "schema.yaml"))


def test_the_docs_page_needs_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/api/v1/docs").content.decode()
    urls = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(urls) >= 4
    for url in urls:
        assert url.startswith("/")
        assert not url.startswith("/static/") or finders.find(url.removeprefix("/static/"))


def test_the_docs_page_has_no_inline_script(client: Client) -> None:
    reply = client.get("/api/v1/docs")
    assert re.findall(r"<script(?![^>]*src=)", reply.content.decode()) == []
    assert "script-src 'self';" in reply["Content-Security-Policy"] + ";"


def test_what_is_asked_for_as_its_version_is_in_no_header(client: Client) -> None:
    answer = client.get("/api/v1/schema", {"version": "x\r\nSet-Cookie: a=b"})
    assert (answer.status_code, "x" in answer["Content-Disposition"].partition("(")[2]) == (200, False)
