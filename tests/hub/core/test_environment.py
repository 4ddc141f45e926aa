from __future__ import annotations

from pathlib import Path

import pytest

from hub.config.environment import load


def test_a_wrong_value_ends_the_process_and_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_BASE_URL", "http://127.0.0.1:abc")
    monkeypatch.setenv("HUB_LEASE_SECONDS", "soon")
    with pytest.raises(SystemExit, match=r"HUB_BASE_URL: .*port[^$]*HUB_LEASE_SECONDS: .*number"):
        load()


def test_a_list_that_is_no_json_ends_the_process_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_ALLOWED_HOSTS", "a, b")
    with pytest.raises(SystemExit, match="allowed_hosts"):
        load()


def test_data_that_is_a_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HUB_DATA", str(tmp_path / "file"))
    with pytest.raises(SystemExit, match=r"HUB_DATA: .*no directory"):
        load()
