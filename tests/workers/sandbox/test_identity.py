"""As whom boxes run, and what a host that cannot run them is told."""

import os
import shutil
from pathlib import Path

import pytest

from workers.sandbox import Unavailable, identity


def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    path = tmp_path / "switch"
    path.write_text(value + "\n")
    monkeypatch.setattr(identity, "USERNS_SWITCHES", {str(path): ("0", "sudo sysctl -w it=1")})
    monkeypatch.setattr(shutil, "which", lambda name, path: "/usr/bin/bwrap")


def test_a_host_without_bubblewrap_is_told_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    with pytest.raises(Unavailable) as raised:
        identity.find_bwrap()
    assert raised.value.hint == "sudo apt-get install bubblewrap"


def test_a_host_that_forbids_user_namespaces_is_told_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(tmp_path, monkeypatch, "0")
    with pytest.raises(Unavailable) as raised:
        identity.find_bwrap()
    assert raised.value.hint == "sudo sysctl -w it=1"


def test_a_host_that_allows_them_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch(tmp_path, monkeypatch, "1")
    assert identity.find_bwrap() == "/usr/bin/bwrap"


def test_root_draws_a_uid_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    drawn = {identity.new_identity().uid for _ in range(50)}
    assert len(drawn) == 50
    assert min(drawn) >= identity.FIRST_UID


def test_a_plain_user_stays_himself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    assert (identity.new_identity().mode, identity.new_identity().uid) == ("user", 1234)
