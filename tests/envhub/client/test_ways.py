"""Where a network has a proxy, what leads outside goes by it; what is inside does not, nor what the rules refuse."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from envhub.client.connection import Connection, Retry
from envhub.client.outside import ways
from envhub.client.outside.addresses import OutboundRefused, is_named
from envhub.client.outside.outbound import async_client, client
from envhub.client.outside.ways import Way, way
from envhub.errors import ConnectionFailed, UsageError
from envhub.protocol.models.catalog import OutboundPolicy
from envhub.proxies import VARIABLES, network_variables, proxy_for, told

from tests.e2e.stack import free_port
from tests.fakes.forward_proxy import ForwardProxy
from tests.fakes.webhook_receiver import WebhookReceiver, webhook_receiver

PROXY = "http://proxy.lan:3128"
OPEN = OutboundPolicy()
PUBLIC, PRIVATE = "93.184.216.34", "10.0.0.7"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whoever runs the tests."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def at(*addresses: str) -> Callable[[str, int], list[str]]:
    return lambda host, port: list(addresses)


def unknown(host: str, port: int) -> list[str]:
    raise OutboundRefused(f"the host {host!r} cannot be resolved", code="unknown_host")


@pytest.mark.parametrize(
    ("variables", "url", "expected"),
    [
        ({}, "https://a.example/", None),
        ({"HTTPS_PROXY": PROXY}, "https://a.example/", PROXY),
        ({"https_proxy": PROXY}, "https://a.example/", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://a.example/", None),
        ({"HTTPS_PROXY": "proxy.lan:3128"}, "https://a.example/", PROXY),
        ({"ALL_PROXY": PROXY}, "http://a.example/", PROXY),
        ({"ALL_PROXY": "socks5://proxy.lan:1080"}, "http://a.example/", None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "b.example, .a.example"}, "https://x.a.example/", None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "a.example:8443"}, "https://a.example:8443/", None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "a.example"}, "https://not-a.example/", PROXY),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, "https://a.example/", None),
    ],
)
def test_the_environment_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str, expected: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == expected
    assert network_variables() == variables


def test_without_a_proxy_the_checked_addresses_are_the_way() -> None:
    assert way(OPEN, "https://a.example/", resolver=at(PUBLIC)) == Way((PUBLIC,))


@pytest.mark.parametrize("resolver", [at(PUBLIC), unknown])
def test_what_is_outside_or_unknown_here_goes_by_the_proxy(
    monkeypatch: pytest.MonkeyPatch, resolver: Callable[[str, int], list[str]]
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    assert way(OPEN, "https://a.example/", resolver=resolver) == Way(proxy=PROXY)


def test_what_the_operator_permits_inside_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    permitted = OutboundPolicy(allow=("vllm.lan",), allow_loopback=True)
    assert way(permitted, "https://vllm.lan/", resolver=at(PRIVATE)) == Way((PRIVATE,))
    assert way(permitted, "https://127.0.0.1:8443/") == Way(("127.0.0.1",))


@pytest.mark.parametrize("url", ["https://10.0.0.7/", "https://inside.lan/", "https://user:word@a.example/"])
def test_what_is_refused_without_a_proxy_is_refused_with_one(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    with pytest.raises(OutboundRefused):
        way(OPEN, url, resolver=at(PRIVATE))


def test_a_name_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setattr(ways, "PATIENCE_S", 0.05)
    began = time.monotonic()
    assert way(OPEN, "https://a.example/", resolver=lambda host, port: [str(answered.wait(20))]) == Way(proxy=PROXY)
    assert time.monotonic() - began < 10
    answered.set()


@pytest.mark.parametrize(("entry", "named"), [("a.example", True), ("a.example:443", True), ("b.example", False)])
def test_what_goes_by_a_proxy_is_listed_by_its_name(entry: str, named: bool) -> None:
    assert is_named(OutboundPolicy(allow=(entry,)), "https://A.example/", ()) is named


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with webhook_receiver(0) as running:
        yield running


@pytest.fixture
def proxy(receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardProxy]:
    """It alone knows hooks.invalid; whoever asks it has a name."""
    known = {"hooks.invalid:80": ("127.0.0.1", httpx.URL(receiver.url).port or 0)}
    with ForwardProxy(free_port(), known) as running:
        monkeypatch.setenv("HTTP_PROXY", running.url.replace("//", "//hub:a%20word@"))
        yield running


def test_a_request_goes_by_the_proxy_under_its_name(proxy: ForwardProxy, receiver: WebhookReceiver) -> None:
    with client(OPEN) as http:
        assert http.post("http://hooks.invalid/x", json={"n": 1}, headers={"webhook-id": "1"}).status_code == 200
    assert [(one.line, one.authorization) for one in proxy.asked] == [
        ("POST http://hooks.invalid/x HTTP/1.1", "Basic aHViOmEgd29yZA==")
    ]
    assert receiver.came == [("1", {"n": 1})]


async def test_the_asynchronous_client_takes_the_same_way(proxy: ForwardProxy, receiver: WebhookReceiver) -> None:
    async with async_client(OPEN) as http:
        assert (await http.post("http://hooks.invalid/x", json={}, headers={"webhook-id": "2"})).status_code == 200
    assert [key for key, _ in receiver.came] == ["2"]


def test_a_proxy_that_refuses_says_so(proxy: ForwardProxy) -> None:
    with client(OPEN) as http:
        assert http.get("http://elsewhere.invalid/").status_code == 403


def test_a_hub_on_this_machine_is_reached_past_the_proxy(proxy: ForwardProxy) -> None:
    for host in ("localhost", "127.0.0.1"):
        with pytest.raises(ConnectionFailed):
            Connection(f"http://{host}:9", None, retry=Retry(attempts=1)).send("GET", "healthz")
    assert not [one for one in proxy.asked if ":9/" in one.line]


@pytest.mark.parametrize("proxy_url", ["socks5://127.0.0.1:9", "http://127.0.0.1:9"])
def test_a_hub_elsewhere_is_asked_of_any_proxy(monkeypatch: pytest.MonkeyPatch, proxy_url: str) -> None:
    """It refuses the connection; the hub's name is asked of nobody here."""
    monkeypatch.setenv("ALL_PROXY", proxy_url)
    with pytest.raises(ConnectionFailed, match="refused"):
        Connection("http://hub.invalid", None, retry=Retry(attempts=1)).send("GET", "healthz")


def test_a_proxy_of_no_known_scheme_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "gopher://proxy.lan")
    with pytest.raises(UsageError, match="gopher") as caught:
        Connection("http://hub.invalid", None)
    assert "HTTPS_PROXY" in caught.value.hint


def test_an_error_is_told_without_the_password_of_a_proxy() -> None:
    assert told(OSError("403, url='http://hub:ses@me@proxy.lan:3128'")) == "OSError: 403, url='http://proxy.lan:3128'"
    assert told(TimeoutError()) == "TimeoutError"
    assert told(OSError("no https://a.example/x@y")) == "OSError: no https://a.example/x@y"
