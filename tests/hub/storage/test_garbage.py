"""What nothing refers to is deleted after a day; what is in use or young never is."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import ProtectedError
from django.db.models.signals import pre_delete
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from hub.registry.models import StoredWheel
from hub.storage import queries, services
from hub.storage.backends.files import FilesBackend
from hub.storage.models import Blob
from hub.storage.services import collect_garbage, store_bytes
from tests.factories.storage import make_blob

pytestmark = pytest.mark.django_db
TOMORROW = timedelta(days=1, minutes=1)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilesBackend:
    """An empty store: collecting looks at all that is there."""
    made = FilesBackend(tmp_path, "http://hub")
    for module in (queries.__name__, "hub.storage.services", "hub.storage.garbage"):
        monkeypatch.setattr(f"{module}.backend", lambda: made)
    return made


@pytest.fixture
def in_use() -> Iterator[Blob]:
    """A blob that something refers to with on_delete=PROTECT, as its own apps' tests do with real rows."""
    blob = make_blob(b"in use")

    def protect(sender: type[Blob], instance: Blob, **_: object) -> None:
        if instance.pk == blob.pk:
            raise ProtectedError("in use", {instance})

    pre_delete.connect(protect, sender=Blob)
    yield blob
    pre_delete.disconnect(protect, sender=Blob)


def test_an_old_blob_without_a_reference_is_deleted(store: FilesBackend) -> None:
    blob = make_blob(b"garbage")
    assert collect_garbage(now=timezone.now() + TOMORROW) == (1, 7)
    assert not Blob.objects.exists()
    assert store.stat(blob.sha256) is None


def test_garbage_that_is_collected_while_the_hub_stores_it_again_has_its_bytes(
    store: FilesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_blob(b"metadata")
    keep = services._keep

    def collected_before(*args: Any) -> Blob:
        collect_garbage(now=timezone.now() + TOMORROW)
        return keep(*args)

    monkeypatch.setattr(services, "_keep", collected_before)
    assert store.stat(services.store_bytes(b"metadata").sha256) is not None


def test_garbage_that_is_collected_while_it_is_confirmed_again_has_its_bytes(
    store: FilesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob, holder = services.store_bytes(b"metadata"), uuid4()
    keep = services._keep

    def collected_before(*args: Any) -> Blob:
        collect_garbage(now=timezone.now() + timedelta(minutes=1), older_than=timedelta(0))
        return keep(*args)

    monkeypatch.setattr(services, "_keep", collected_before)
    store.receive(blob.sha256, holder, io.BytesIO(b"metadata"))
    monkeypatch.setattr(store, "drop_old_uploads", lambda before: None)  # what comes now is young
    assert store.stat(services.confirm_blob(blob.sha256, holder=holder).sha256) is not None


def test_a_young_blob_is_kept(store: FilesBackend) -> None:
    blob = make_blob()
    assert collect_garbage(now=timezone.now()) == (0, 0)
    assert store.stat(blob.sha256) is not None


def test_a_blob_in_use_is_kept(store: FilesBackend, in_use: Blob) -> None:
    assert collect_garbage(now=timezone.now() + TOMORROW) == (0, 0)
    assert store.stat(in_use.sha256) is not None


def test_a_pass_over_blobs_in_use_asks_in_batches_and_writes_nothing(store: FilesBackend) -> None:
    for number in range(20):
        blob = store_bytes(bytes([number]), holder=uuid4())
        StoredWheel.objects.create(blob=blob, filename=f"{number}.whl", name="n", version="1")
    with CaptureQueriesContext(connection) as asked:
        assert collect_garbage(now=timezone.now() + TOMORROW) == (0, 0)
    assert len(asked) < 20
    assert not any("storage_storageuse" in query["sql"] or "FOR UPDATE" in query["sql"] for query in asked)


def test_bytes_that_were_never_confirmed_are_deleted(store: FilesBackend) -> None:
    sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    store.write(sha256, io.BytesIO(b"hello"))
    assert collect_garbage(now=timezone.now() + TOMORROW) == (1, 5)
    assert store.stat(sha256) is None


def test_what_a_killed_hub_was_writing_is_deleted(store: FilesBackend) -> None:
    partial = store.root / ".upload-k1ll3d"
    partial.write_bytes(b"half")
    collect_garbage(now=timezone.now())
    assert partial.exists()
    collect_garbage(now=timezone.now() + TOMORROW)
    assert not partial.exists()
