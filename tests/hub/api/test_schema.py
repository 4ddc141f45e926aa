"""The OpenAPI schema and its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import Client

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
    assert client.get("/api/v1/docs?script=").status_code == 200
    assert "script-src 'self';" in reply["Content-Security-Policy"] + ";"
