"""The key that everything else hangs on: made once, whole, for this user alone."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hub.config.environment import HubEnvironment


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUB_SECRET_KEY", raising=False)
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: HubEnvironment(data=tmp_path).resolved_secret_key(), range(64)))
    assert [len(key) for key in keys] == [64]
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("secret_key", 0o600)]


def test_a_start_that_dies_while_writing_leaves_no_empty_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUB_SECRET_KEY", raising=False)

    def die(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", die)
        with pytest.raises(KeyboardInterrupt):
            HubEnvironment(data=tmp_path).resolved_secret_key()
    assert len(HubEnvironment(data=tmp_path).resolved_secret_key()) == 64
