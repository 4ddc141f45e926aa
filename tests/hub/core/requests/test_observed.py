"""Every request is counted by the pattern of its route, whoever in the chain of applications answers it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import pytest
from envhub.protocol.accounts.users import Scope

from hub.config.asgi import application
from hub.core.metrics import REGISTRY
from hub.core.requests.observed import Observed
from tests.factories.accounts import make_token, make_user

SOME_ID = "0196a0f2-0000-7000-8000-000000000000"


def requests(route: str, method: str, status: str) -> float:
    labels = {"route": route, "method": method, "status": status}
    return REGISTRY.get_sample_value("hub_http_requests_total", labels) or 0.0


def ask(method: str, path: str, app: Any = application, **headers: str) -> None:
    async def once() -> None:
        transport = httpx.ASGITransport(cast(Any, app), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await client.request(method, path, headers=headers)

    asyncio.run(once())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("GET", "/healthz", "healthz", "200"),
        ("GET", "/login", "login", "200"),
        ("GET", f"/api/v1/runs/{SOME_ID}", "api/v1/runs/<id:run_id>", "401"),
        ("GET", "/index/alice/simple/none/", "index/<str:owner>/simple/<str:project>/", "401"),
        ("POST", "/inference/v1/chat/completions", "inference/v1/chat/completions", "401"),
        ("GET", f"/sandbox-ports/{'x' * 40}/", "sandbox-ports/<str:token>/<path>", "404"),
        ("GET", "/static/nothing.css", "static/<path>", "404"),
        ("GET", f"/{SOME_ID}/{SOME_ID}", "none", "404"),
        ("BREW", "/healthz", "healthz", "403"),
    ],
)
def test_a_request_counts_for_its_route(method: str, path: str, route: str, status: str) -> None:
    labels = {"route": route, "method": method if method != "BREW" else "other"}
    before = requests(status=status, **labels)
    timed = REGISTRY.get_sample_value("hub_http_request_duration_seconds_count", labels) or 0.0
    ask(method, path)
    assert requests(status=status, **labels) == before + 1
    assert REGISTRY.get_sample_value("hub_http_request_duration_seconds_count", labels) == timed + 1


@pytest.mark.django_db(transaction=True)
def test_a_call_of_a_sandbox_counts_for_what_it_asks() -> None:
    secret = make_token(make_user(), Scope.READ)
    route = "api/v1/sandboxes/<uuid:sandbox_id>/output"
    before = requests(route, "GET", "404")
    ask("GET", f"/api/v1/sandboxes/{SOME_ID}/processes/7/output", Authorization=f"Bearer {secret}")
    assert requests(route, "GET", "404") == before + 1


def test_a_request_without_an_answer_counts_and_is_over() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("broken")

    before = requests("none", "GET", "none")
    ask("GET", "/", Observed(broken))
    assert requests("none", "GET", "none") == before + 1
    assert REGISTRY.get_sample_value("hub_http_requests_in_progress") == 0
