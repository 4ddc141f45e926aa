"""The backends under contract: files served by a live hub, and S3 by a real moto server process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from hub.storage import api, garbage, queries, services
from hub.storage.backends.files import FilesBackend
from hub.storage.backends.interface import Backend
from hub.storage.backends.s3 import S3Backend
from tests.fakes.s3_server import CREDENTIALS, s3_server

BUCKET = "hub-test"


@pytest.fixture(scope="session", autouse=True)
def s3_credentials() -> Iterator[None]:
    """Credentials of nobody, in every test here: a worker that never starts moto needs them as well."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        yield


@pytest.fixture(scope="session")
def s3_url(s3_credentials: None) -> Iterator[str]:
    """A moto server process with an empty bucket."""
    with s3_server(BUCKET) as url:
        yield url


@pytest.fixture(scope="session")
def s3_store(s3_url: str) -> S3Backend:
    """On that bucket. Made once: boto reads megabytes of JSON for each new client."""
    return S3Backend(bucket=BUCKET, region="us-east-1", endpoint_url=s3_url, public_endpoint_url="")


@pytest.fixture(params=["files", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, live_server: Any) -> Backend:
    """One backend after the other; the hub's own, too, so that its signed URLs are served."""
    made: Backend
    made = request.getfixturevalue("s3_store") if request.param == "s3" else FilesBackend(tmp_path, live_server.url)
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for module in (queries, services, garbage, api):  # imported before: in between it would keep this backend for ever
        monkeypatch.setattr(module, "backend", lambda: made)
    assert settings.HUB.storage == "files"
    return made
