"""The proxy of compose.yaml, run by Caddy itself: certificates, streams, and who the caller is said to be."""

from __future__ import annotations

import json
import os
import shlex
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest
import yaml

from tests.infra.tools import ROOT, TOOLS, needs_tools

pytestmark = needs_tools
NAMES = {
    "HUB_BASE_URL": "https://hub.example.org",
    "HUB_S3_PUBLIC_ENDPOINT_URL": "https://hub.example.org:9443",
    "HUB_HOST": "hub.example.org",
}


def adapted(**env: str) -> str:
    """The Caddyfile as JSON."""
    command = [TOOLS / "caddy", "adapt", "--config", ROOT / "infra/Caddyfile"]
    done = subprocess.run(
        command, env=NAMES | {"HOME": "/nowhere"} | env, capture_output=True, text=True, check=True, timeout=30
    )
    assert "warn" not in done.stderr.lower()
    return done.stdout


def policies(config: str) -> list[object]:
    found: list[object] = json.loads(config)["apps"].get("tls", {}).get("automation", {}).get("policies", [])
    return found


def test_where_certificates_come_from() -> None:
    assert policies(adapted()) == []
    assert policies(adapted(TLS_CERTIFICATES="internal")) == [
        {"subjects": ["hub.example.org"], "issuers": [{"module": "internal"}]}
    ]
    assert "/certificates/fullchain.pem" in adapted(TLS_CERTIFICATES="files")


def test_an_address_with_http_stays_without_tls() -> None:
    servers = json.loads(adapted(HUB_BASE_URL="http://10.0.0.7:8000"))["apps"]["http"]["servers"]
    (server,) = [one for one in servers.values() if one["listen"] == [":8000"]]
    assert server["automatic_https"]["skip"] == ["10.0.0.7"]


def test_a_client_that_names_no_host_gets_the_certificate_of_the_address() -> None:
    config = json.loads(
        adapted(
            HUB_BASE_URL="https://10.0.0.7", HUB_S3_PUBLIC_ENDPOINT_URL="https://10.0.0.7:9443", HUB_HOST="10.0.0.7"
        )
    )
    servers = {one["listen"][0]: one for one in config["apps"]["http"]["servers"].values()}
    for port in (":443", ":9443"):
        assert {policy["default_sni"] for policy in servers[port]["tls_connection_policies"]} == {"10.0.0.7"}


@pytest.mark.parametrize("url", ["https://10.0.0.7", "https://10.0.0.7:8443/", "http://10.0.0.7:80"])
def test_the_host_of_the_address_is_told_to_the_proxy(url: str, tmp_path: Path) -> None:
    service = yaml.safe_load((ROOT / "infra/compose.yaml").read_text())["services"]["proxy"]
    command = shlex.split(service["command"].replace("$$", "$"))
    (tmp_path / "caddy").write_text('#!/bin/sh\nprintf %s "$HUB_HOST"\n')
    (tmp_path / "caddy").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HUB_BASE_URL": url}
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout == "10.0.0.7"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Hub(BaseHTTPRequestHandler):
    """Tells what it was asked, and sends one more line when it may."""

    go_on = Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        told = {name: self.headers.get_all(name) for name in ("Host", "X-Forwarded-For", "X-Forwarded-Proto")}
        self.wfile.write(json.dumps(told).encode() + b"\n")
        self.wfile.flush()
        self.go_on.wait(10)
        self.wfile.write(b"end\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """The port of a running proxy before a Hub, and its authority's certificate."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        port, http_port = free_port(), free_port()
        config = json.loads(adapted(HUB_BASE_URL=f"https://localhost:{port}", HUB_S3_PUBLIC_ENDPOINT_URL="http://s3:1"))
        servers = config["apps"]["http"]["servers"]
        only = [one for one in servers.values() if one["listen"] == [f":{port}"]]
        text = json.dumps(only[0]).replace("hub:8000", f"127.0.0.1:{hub.server_address[1]}")
        served = json.loads(text) | {"listen": [f"127.0.0.1:{port}"], "protocols": ["h1", "h2"]}
        config["apps"]["http"] = {"servers": {"hub": served}, "http_port": http_port, "https_port": port}
        config["apps"]["pki"] = {"certificate_authorities": {"local": {"install_trust": False}}}
        (tmp_path / "caddy.json").write_text(json.dumps(config))
        env = os.environ | {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
        command = [TOOLS / "caddy", "run", "--config", tmp_path / "caddy.json"]
        with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as caddy:
            try:
                yield port, tmp_path / "caddy/pki/authorities/local/root.crt"
            finally:
                caddy.terminate()
                hub.shutdown()


def authority_of_running(port: int, authority: Path) -> ssl.SSLContext:
    """Waits for the proxy. Trusts nobody but its authority."""
    for _ in range(100):
        try:
            trusted = ssl.create_default_context(cafile=str(authority))
            httpx.head(f"https://localhost:{port}/", verify=trusted, trust_env=False)
        except (OSError, httpx.TransportError):
            time.sleep(0.1)
        else:
            return trusted
    raise TimeoutError("caddy does not answer")


def test_the_proxy_ends_tls_streams_and_says_who_calls(proxy: tuple[int, Path]) -> None:
    port, authority = proxy
    forged = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http"}
    trusted, url = authority_of_running(port, authority), f"https://localhost:{port}/"
    with httpx.stream("GET", url, headers=forged, verify=trusted, trust_env=False) as answer:
        lines = answer.iter_lines()
        told = json.loads(next(lines))  # while the hub still has more to say
        Hub.go_on.set()
        assert next(lines) == "end"
    assert told["Host"] == [f"localhost:{port}"]
    assert (told["X-Forwarded-For"], told["X-Forwarded-Proto"]) == (["127.0.0.1"], ["https"])
