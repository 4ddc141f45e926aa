"""Fixtures of the backups' tests: a hub on files, and one on S3, each with a destination of the same sort."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from hub.backups.destinations.files import FilesDestination
from hub.backups.destinations.s3 import S3Destination
from hub.backups.services import restoring
from hub.storage import garbage, queries, services
from hub.storage.backends.files import FilesBackend
from hub.storage.backends.interface import Backend
from hub.storage.backends.s3 import S3Backend, make_client
from tests.fakes.s3_server import CREDENTIALS, s3_server
from tests.hub.backups.site import Site

BUCKET = "hub-backups-test"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A hub on files."""
    assert settings.HUB.storage == "files"
    store = FilesBackend(tmp_path / "data/blobs", "http://hub")
    return made(Site(store, FilesDestination(tmp_path / "there"), tmp_path / "identity"), monkeypatch)


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """A moto server process with an empty bucket, and credentials of nobody."""
    with pytest.MonkeyPatch.context() as monkeypatch, s3_server(BUCKET) as url:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        yield url


@pytest.fixture
def s3_site(s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A hub on S3; hub and backups in one bucket."""
    store = S3Backend(bucket=BUCKET, region="us-east-1", endpoint_url=s3_url, public_endpoint_url="")
    client = make_client(region="us-east-1", endpoint_url=s3_url)
    yield made(Site(store, S3Destination(client, BUCKET, "backups/of/hub"), tmp_path / "identity"), monkeypatch)
    for item in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        client.delete_object(Bucket=BUCKET, Key=item["Key"])


def made(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """All parts of the hub use this storage."""
    store: Backend = site.store
    for module in (queries, services, garbage, restoring):
        monkeypatch.setattr(module, "backend", lambda: store)
    return site
