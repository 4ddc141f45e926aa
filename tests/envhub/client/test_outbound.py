"""User-given URLs reach public servers and what the operator lists; nothing else, whatever DNS says."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from envhub.client.outside.addresses import OutboundRefused, check
from envhub.client.outside.outbound import async_client, client
from envhub.client.outside.own_processes import MARK
from envhub.protocol.models.catalog import OutboundPolicy


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", "http://169.254.169.254/")
        body = self.headers["Host"].encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


class _Dns:
    """Answers each question with the next list, like a name server under an attacker's control."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    def __call__(self, host: str, port: int) -> list[str]:
        return self.answers.pop(0)


LOCAL = OutboundPolicy(allow_loopback=True)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "::1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "fe80::1", "fd00::1"),
        *("0.0.0.0", "::", "100.64.0.1", "224.0.0.1", "ff02::1", "240.0.0.1", "255.255.255.255"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:7f00:1::", "fe80::1%eth0"),
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(OutboundRefused):
        check(OutboundPolicy(), "https://models.example", resolver=_Dns([address]))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111"])
def test_a_public_address_is_permitted(address: str) -> None:
    assert check(OutboundPolicy(), "https://models.example", resolver=_Dns([address])) == [address]


def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(OutboundRefused, match=r"10\.0\.0\.1"):
        check(OutboundPolicy(), "https://models.example", resolver=_Dns(["93.184.216.34", "10.0.0.1"]))


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "localhost", "LOCALHOST.", "[::ffff:7f00:1]"])
def test_other_spellings_of_loopback_are_refused_too(host: str) -> None:
    with pytest.raises(OutboundRefused):
        check(OutboundPolicy(), f"http://{host}:9/")


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "file:///etc/passwd", "http://", "//a.example", "http://u:p@a.example/", "http://a:x/"]
)
def test_only_plain_http_urls_are_accepted(url: str) -> None:
    with pytest.raises(OutboundRefused):
        check(OutboundPolicy(), url, resolver=_Dns(["93.184.216.34"]))


@pytest.mark.parametrize("entry", ["vllm.lan", "vllm.lan:8000", "10.0.0.0/8", "10.0.0.7", "10.0.0.7:8000"])
def test_the_operator_may_list_private_servers(entry: str) -> None:
    assert check(OutboundPolicy(allow=(entry,)), "http://vllm.lan:8000/v1", resolver=_Dns(["10.0.0.7"])) == ["10.0.0.7"]


@pytest.mark.parametrize("entry", ["vllm.lan:8001", "other.lan", "10.1.0.0/16", "fd00::/8"])
def test_what_is_not_listed_stays_refused(entry: str) -> None:
    with pytest.raises(OutboundRefused):
        check(OutboundPolicy(allow=(entry,)), "http://vllm.lan:8000/v1", resolver=_Dns(["10.0.0.7"]))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "[::1]"])
def test_the_hubs_own_port_is_never_reachable(host: str) -> None:
    policy = OutboundPolicy(allow=("127.0.0.0/8",), allow_loopback=True, own_urls=("http://127.0.0.1:8000/",))
    with pytest.raises(OutboundRefused, match="this hub itself"):
        check(policy, f"http://{host}:8000/v1")


def test_the_hubs_public_address_is_not_reachable_either() -> None:
    policy = OutboundPolicy(own_urls=("https://hub.example/",))
    with pytest.raises(OutboundRefused, match="this hub itself"):
        check(policy, "https://alias.example/", resolver=_Dns(["93.184.216.34"], ["93.184.216.34"]))


def test_a_name_that_is_rebound_after_the_check_is_not_asked_again(port: int) -> None:
    dns = _Dns(["127.0.0.1"], ["10.0.0.1"])
    with client(LOCAL, resolver=dns) as http:
        assert http.get(f"http://models.example:{port}/").text == f"models.example:{port}"
    assert dns.answers == [["10.0.0.1"]]


def test_a_name_that_is_rebound_between_requests_is_refused(port: int) -> None:
    with client(LOCAL, resolver=_Dns(["127.0.0.1"], ["169.254.169.254"])) as http:
        http.get(f"http://models.example:{port}/")
        with pytest.raises(OutboundRefused):
            http.get(f"http://models.example:{port}/")


async def test_the_asynchronous_client_holds_to_the_same_rules(port: int) -> None:
    async with async_client(LOCAL, resolver=_Dns(["127.0.0.1"], ["10.0.0.1"])) as http:
        assert (await http.get(f"http://models.example:{port}/")).text == f"models.example:{port}"
        with pytest.raises(OutboundRefused):
            await http.get(f"http://models.example:{port}/")


def test_a_redirect_is_answered_and_not_followed(port: int) -> None:
    with client(LOCAL) as http:
        assert http.get(f"http://127.0.0.1:{port}/moved").status_code == 302


def test_the_next_address_is_tried_when_one_refuses_the_connection(port: int) -> None:
    with client(LOCAL, resolver=_Dns(["::1", "127.0.0.1"])) as http:
        assert http.get(f"http://models.example:{port}/").status_code == 200


def test_a_proxy_of_the_process_is_not_used(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with client(LOCAL) as http:
        assert http.get(f"http://127.0.0.1:{port}/").status_code == 200


def test_a_server_that_is_down_is_a_connection_error() -> None:
    with client(LOCAL) as http, pytest.raises(httpx.ConnectError):
        http.get("http://127.0.0.1:9/")


LISTENER = """
import socket, time
listener = socket.create_server(("", 0))
print(listener.getsockname()[1], flush=True)
time.sleep(60)
"""
SPELLINGS = """127.0.0.1 127.1 127.0.0.2 0x7f.1 0177.0.0.1 2130706433 0x7f000001 localhost LOCALHOST. 0.0.0.0 0
    [::1] [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [::ffff:0:127.0.0.1]
    [64:ff9b::7f00:1] [64:ff9b:1::7f00:1] [2002:7f00:1::]"""


@pytest.fixture(scope="module")
def engine_port() -> Iterator[int]:
    """A port on which a process of the installation listens, as its engines do."""
    process = subprocess.Popen([sys.executable, "-c", LISTENER], env={MARK: "1"}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        yield int(process.stdout.readline())
        process.kill()


@pytest.mark.parametrize("host", [*SPELLINGS.split(), socket.gethostname()])
def test_a_port_of_the_hubs_own_processes_is_refused_however_it_is_spelled(host: str, engine_port: int) -> None:
    with pytest.raises(OutboundRefused):
        check(OutboundPolicy(allow=("0.0.0.0/0", "::/0"), allow_loopback=True), f"http://{host}:{engine_port}/v1")


def test_a_name_that_leads_to_an_engine_is_refused_too(engine_port: int) -> None:
    with pytest.raises(OutboundRefused, match="this hub itself"):
        check(LOCAL, f"http://models.example:{engine_port}/v1", resolver=_Dns(["127.0.0.1"]))


def test_a_users_own_server_on_loopback_is_reached(port: int, engine_port: int) -> None:
    with client(LOCAL) as http:
        assert http.get(f"http://127.0.0.1:{port}/").status_code == 200
