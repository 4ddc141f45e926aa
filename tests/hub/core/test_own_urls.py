"""What the hub is made of is never a user's endpoint: its database, broker and object storage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import HttpUrl

from hub.config.environment import HubEnvironment


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own services are not asked about."""
    for name in [name for name in os.environ if name.startswith("HUB_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "url", "own"),
    [
        ("database_url", "postgresql://hub:secret@db.lan/hub", "http://db.lan:5432"),
        ("broker_url", "redis://:secret@127.0.0.1:6399/0", "http://127.0.0.1:6399"),
        ("broker_url", "rediss://[::1]/0", "http://[::1]:6379"),
        ("s3_endpoint_url", "https://s3.lan", "http://s3.lan:443"),
        ("backup_s3_endpoint_url", "https://s3.far", "http://s3.far:443"),
    ],
)
def test_a_server_of_the_settings_is_the_hubs_own_without_its_password(
    name: str, url: str, own: str, tmp_path: Path
) -> None:
    settings = HubEnvironment(data=tmp_path, base_url=HttpUrl("http://hub.lan:8000"), **{name: url})  # type: ignore[arg-type]
    assert settings.own_urls() == ("http://hub.lan:8000", own)


def test_what_no_network_reaches_is_left_out(tmp_path: Path) -> None:
    settings = HubEnvironment(data=tmp_path, database_url="sqlite:////data/hub", broker_url="filesystem://localhost")
    assert settings.own_urls() == ("http://127.0.0.1:8000",)
