"""The program in the place of frpc: where it is put, whose tunnels it leads, and what it prints."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from envhub.cli.sandboxes.tunnels import frpc

CONFIGURATION = """
serverAddr = "hub.example"
serverPort = 443
user = "t"
auth.method = "token"
auth.token = "{token}"
metadatas.binding_secret = "s"
[[proxies]]
name = "t"
type = "http"
localIP = "127.0.0.1"
localPort = 4000
"""


# prime_tunnel/frpc.py of 0.1.15
PRIME_TUNNEL_READS = r"\d{4}-\d{2}-\d{2}\s\d{2}:\d{2}:\d{2}\.\d{3}\s\[([EWIDT])\]\s\[.*?\]\s(?:\[.*?\]\s)*(.+)"


def configured(folder: Path, token: str) -> str:
    path = folder / "t.toml"
    path.write_text(CONFIGURATION.format(token=token))
    return str(path)


def run(home: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([home / ".prime/bin/frpc", *arguments], stdout=subprocess.PIPE, text=True, timeout=60)
    return done.returncode, done.stdout


def test_it_takes_the_place_of_frpc_once(tmp_path: Path) -> None:
    assert [frpc.place(tmp_path), frpc.place(tmp_path)] == [True, False]
    assert (tmp_path / ".prime/bin/.frpc_version").read_text() == "0.66.0"
    assert {path.name for path in (tmp_path / ".prime/bin").iterdir()} == {"frpc", ".frpc_version"}


def test_tunnels_of_others_are_led_by_the_frpc_that_was_there(tmp_path: Path) -> None:
    folder = tmp_path / ".prime/bin"
    folder.mkdir(parents=True)
    (folder / ".frpc_version").write_text("0.70.1")
    (folder / "frpc").write_text('#!/bin/sh\necho "the original: $*"\nexit 3\n')
    (folder / "frpc").chmod(0o755)
    assert frpc.place(tmp_path)
    assert (folder / ".frpc_version").read_text() == "0.70.1"
    foreign = configured(tmp_path, "abc")
    assert run(tmp_path, "-c", foreign) == (3, f"the original: -c {foreign}\n")
    assert run(tmp_path, "--version") == (3, "the original: --version\n")


def test_without_an_original_it_says_how_to_get_one(tmp_path: Path) -> None:
    frpc.place(tmp_path)
    code, said = run(tmp_path, "-c", configured(tmp_path, "abc"))
    assert code == 1
    assert f"remove {tmp_path}/.prime/bin/frpc" in said


def test_a_tunnel_of_a_hub_is_carried_to_the_port_that_it_names(tmp_path: Path) -> None:
    address = "https://hub.example/sandbox-clients/x/prime/api/v1/tunnel/t/attached/s"
    carrier = frpc.carrier_of(["-c", configured(tmp_path, address)])
    assert carrier is not None
    assert (carrier.address, carrier.host, carrier.port) == (address, "127.0.0.1", 4000)


@pytest.mark.parametrize("level", ["I", "E"])
def test_its_lines_have_the_form_that_prime_tunnel_reads(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    frpc._say(level, "start proxy success")
    said = capsys.readouterr().out
    assert re.match(PRIME_TUNNEL_READS, said)
