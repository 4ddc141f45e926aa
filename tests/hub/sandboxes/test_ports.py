"""Addresses of ports: what is hostile behind them never acts on the hub's origin."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.utils import timezone
from pydantic import HttpUrl

from hub.sandboxes.addresses import port_address
from hub.sandboxes.models import Sandbox, SandboxPort
from tests.hub.sandboxes.conftest import HOSTILE

pytestmark = pytest.mark.django_db(transaction=True)


async def address(sandbox: Sandbox, seconds: float = 60.0) -> str:
    expires_at = timezone.now() + timedelta(seconds=seconds)
    opened = await SandboxPort.objects.acreate(sandbox=sandbox, number=8080, expires_at=expires_at)
    return "/sandbox-ports/" + port_address(opened).url.partition("/sandbox-ports/")[2]


async def test_a_request_arrives_without_what_tells_who_somebody_is(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    sent = {"Cookie": "sessionid=1", "Authorization": "Bearer hub_x", "Referer": "http://hub/x", "X-CSRFToken": "t"}
    answer = await hub.get(f"{await address(sandbox)}a%2Fb/?q=1%202", headers={**sent, "X-Custom": "kept"})
    seen = {name.lower(): value for name, value in answer.json()["headers"].items()}
    assert answer.json()["path"] == "/ports/8080/a%2Fb/?q=1%202"
    assert not {"cookie", "referer", "x-csrftoken"} & set(seen)
    assert "hub_x" not in str(seen)
    assert (seen["host"], seen["x-custom"]) == ("localhost:8080", "kept")


async def test_an_answer_speaks_for_nobody_but_itself(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    answer = await hub.get(await address(sandbox))
    assert not {name.lower() for name in HOSTILE} - {"content-type", "content-security-policy"} & set(answer.headers)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox ")
    assert "allow-same-origin" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("site", "destination", "status"),
    [("same-origin", "script", 403), ("same-origin", "document", 200), ("cross-site", "script", 200), ("", "", 200)],
)
async def test_no_page_of_the_hub_can_be_made_to_load_a_script_from_a_port(
    hub: httpx.AsyncClient, sandbox: Sandbox, site: str, destination: str, status: int
) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": destination} if site else {}
    assert (await hub.get(await address(sandbox), headers=headers)).status_code == status


async def test_a_redirect_of_the_program_stays_below_its_address(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    base = await address(sandbox)
    assert (await hub.get(f"{base}moved")).headers["location"] == f"{base}login?x=1"
    assert (await hub.get(base.removesuffix("/"))).headers["location"] == base


async def test_a_forged_address_and_one_that_has_expired_lead_nowhere(
    hub: httpx.AsyncClient, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await address(sandbox)
    for forged in (
        base.replace(".", "0.", 1),
        base[:-3] + "x/",
        "/sandbox-ports/x/",
        "/sandbox-ports/a.b.c.d.e/",
    ):
        assert (await hub.get(forged)).status_code == 404
    assert (await hub.get(base)).status_code == 200
    later = timezone.now() + timedelta(seconds=61)
    monkeypatch.setattr("hub.sandboxes.addresses.timezone.now", lambda: later)
    assert (await hub.get(base)).status_code == 404


async def test_an_address_ends_with_its_sandbox(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    base = await address(sandbox)
    await sync_to_async(Sandbox.objects.filter(pk=sandbox.pk).update)(state="stopped", base_url="")
    assert (await hub.get(base)).status_code == 409


async def test_a_closed_address_leads_nowhere(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    one, another = await address(sandbox), await address(sandbox)
    await (await SandboxPort.objects.order_by("pk").afirst()).adelete()  # type: ignore[union-attr]
    assert [(await hub.get(url)).status_code for url in (one, another)] == [404, 200]


async def test_ports_with_a_name_of_their_own_are_nowhere_else(
    hub: httpx.AsyncClient, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = settings.HUB.model_copy(update={"sandbox_ports_url": HttpUrl("https://ports.example:8443")})
    monkeypatch.setattr(settings, "HUB", own)
    opened = SandboxPort(sandbox=sandbox, number=80, expires_at=timezone.now())
    made = port_address(opened).url
    assert made.startswith("https://ports.example:8443/sandbox-ports/")
    assert (await hub.get(await address(sandbox), headers={"Host": "ports.example:8443"})).status_code == 200
    assert (await hub.get(await address(sandbox))).status_code == 404


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "BREW"])
async def test_methods_that_change_a_connection_never_reach_it(
    hub: httpx.AsyncClient, sandbox: Sandbox, method: str
) -> None:
    assert (await hub.request(method, await address(sandbox), content=b"GET / HTTP/1.1\r\n\r\n")).status_code == 405


async def test_a_path_that_leads_upwards_stays_the_ports(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    answer = await hub.get(await address(sandbox) + "%2e%2e/%2e%2e/exec")
    assert answer.json()["path"].startswith("/ports/8080/")


async def test_a_malformed_header_is_refused(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    for header in ({"Content-Length": "chunked"}, {"X-Any": "a\nb"}):
        assert (await hub.get(await address(sandbox), headers=header)).status_code == 422
