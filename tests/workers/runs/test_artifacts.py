"""Blobs travel streamed and verified, and are fetched once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from envhub import errors
from envhub.protocol.base import BlobRef

from tests.fakes.hub import FakeHub, FakeRun
from workers.runs.artifacts import Artifacts
from workers.runs.hub import HubClient


async def test_an_upload_is_repeated_until_it_arrives_and_sent_once(tmp_path: Path) -> None:
    async with FakeHub(fail_next_uploads=1) as hub, HubClient(hub.url, "hubw_good", patience_s=2) as client:
        artifacts = Artifacts(client.run(hub.claim(hub.add(FakeRun("r")))), tmp_path)
        path = tmp_path / "file"
        path.write_bytes(b"x" * 3_000_000)
        first = await artifacts.upload_blob(path)
        hub.fail_next_uploads = 99  # a second upload would fail: there is none
        assert await artifacts.upload_blob(path) == first
        assert hub.blobs[first] == path.read_bytes()


async def test_a_storage_that_is_away_is_waited_for_as_long_as_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.runs.artifacts.LONGEST_PAUSE_S", 0.01)
    monkeypatch.setattr("workers.runs.artifacts.FIRST_PAUSE_S", 0.01)
    async with FakeHub(fail_next_uploads=9) as hub, HubClient(hub.url, "hubw_good", patience_s=60) as client:
        artifacts = Artifacts(client.run(hub.claim(hub.add(FakeRun("r")))), tmp_path)
        assert hub.blobs[await artifacts.upload_bytes(b"bytes")] == b"bytes"


async def test_a_storage_that_refuses_is_asked_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.runs.artifacts.FIRST_PAUSE_S", 0.001)
    async with FakeHub() as hub, HubClient(hub.url, "hubw_good", patience_s=60) as client:
        artifacts = Artifacts(client.run(hub.claim(hub.add(FakeRun("r")))), tmp_path)
        with pytest.raises(errors.ConnectionFailed, match="404"):
            await artifacts.fetch(f"{hub.url}/nothing", "0" * 64)


async def test_a_fetched_blob_is_kept(tmp_path: Path) -> None:
    async with FakeHub() as hub, HubClient(hub.url, "hubw_good", patience_s=2) as client:
        artifacts = Artifacts(client.run(hub.claim(hub.add(FakeRun("r")))), tmp_path)
        sha256, url = hub.store(b"bytes")
        path = await artifacts.fetch_blob(BlobRef(sha256=sha256, size=5, url=url))
        hub.blobs.clear()
        assert (await artifacts.fetch_blob(BlobRef(sha256=sha256, size=5))).read_bytes() == b"bytes"
        assert path.stat().st_mode & 0o222 == 0


async def test_wrong_bytes_are_never_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.runs.artifacts.ATTEMPTS", 2)
    async with FakeHub() as hub, HubClient(hub.url, "hubw_good", patience_s=2) as client:
        artifacts = Artifacts(client.run(hub.claim(hub.add(FakeRun("r")))), tmp_path / "cache")
        sha256, url = hub.store(b"bytes")
        hub.blobs[sha256] = b"other"
        with pytest.raises(errors.ConnectionFailed, match="another hash"):
            await artifacts.fetch(url, sha256)
    assert list((tmp_path / "cache").iterdir()) == []


async def test_the_cache_forgets_what_was_used_least_recently_and_is_in_no_hands(tmp_path: Path) -> None:
    async with FakeHub() as hub, HubClient(hub.url, "hubw_good", patience_s=2) as client:
        artifacts = Artifacts(client.run(hub.claim(hub.add(FakeRun("r")))), tmp_path, cache_bytes=25)
        stored = [hub.store(bytes([n]) * 10) for n in range(5)]
        for number, (sha256, url) in enumerate(stored):
            path = await artifacts.fetch(url, sha256)
            if number < 2:
                os.utime(path, (1 + number, 1 + number))  # used long ago
    assert {path.name for path in tmp_path.iterdir()} == {sha256 for sha256, _ in stored[2:]}
