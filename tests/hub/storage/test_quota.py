"""What an owner stores is counted, shown and limited, at a cost that does not grow with the number of blobs."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from hub.accounts.models import User
from hub.storage import queries
from hub.storage.backends.files import FilesBackend
from hub.storage.models import EVERYBODY, BlobHolder, PendingUpload
from hub.storage.quota import GB, QuotaExceeded, quota, used_by
from hub.storage.services import (
    collect_garbage,
    confirm_blob,
    prepare_uploads,
    share_blobs,
    store_bytes,
)
from tests.factories.accounts import bearer, make_token, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FilesBackend(tmp_path, "http://hub")
    for module in (queries.__name__, "hub.storage.services", "hub.storage.garbage", "hub.storage.api"):
        monkeypatch.setattr(f"{module}.backend", lambda: made)


@pytest.fixture
def hundred_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of each owner."""
    monkeypatch.setattr("hub.storage.quota.quota", lambda owner: 100)


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def used(user: User) -> int:
    return used_by([user.owner.pk])[user.owner.pk]


def uploaded(client: Client, data: bytes, user: User) -> str:
    """The hash of bytes that lie in the user's inbox."""
    sha256 = hashlib.sha256(data).hexdigest()
    (ticket,) = prepare_uploads([(sha256, len(data))], holder=user.owner.pk)
    assert client.put(ticket.url.removeprefix("http://hub"), data=data).status_code == 204
    return sha256


def test_bytes_count_once_for_each_who_brought_them(ada: User) -> None:
    bob = make_user("bob")
    for user in (ada, ada, bob):
        store_bytes(b"x" * 60, holder=user.owner.pk)
    store_bytes(b"the hub's own")
    assert (used(ada), used(bob)) == (60, 60)


def test_an_upload_that_does_not_fit_is_refused_before_it_begins(
    ada: User, client: Client, hundred_bytes: None
) -> None:
    store_bytes(b"x" * 60, holder=ada.owner.pk)
    body = {"blobs": [{"sha256": letter * 64, "size": 25} for letter in "ab"]}
    reply = client.post("/api/v1/blobs", body, "application/json", headers=bearer(make_token(ada)))
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (413, "quota_exceeded")
    assert "ask an administrator" in error["hint"]
    one = {"blobs": body["blobs"][:1]}
    assert client.post("/api/v1/blobs", one, "application/json", headers=bearer(make_token(ada))).status_code == 200


def test_uploads_that_began_together_do_not_pass_it_together(ada: User, client: Client, hundred_bytes: None) -> None:
    first = uploaded(client, b"1" * 70, ada)
    with pytest.raises(QuotaExceeded):
        uploaded(client, b"2" * 70, ada)
    confirm_blob(first, 70, holder=ada.owner.pk)
    assert used(ada) == 70


def test_uploads_that_are_never_confirmed_count_until_they_are_collected(
    ada: User, client: Client, hundred_bytes: None
) -> None:
    uploaded(client, b"1" * 70, ada)
    uploaded(client, b"1" * 70, ada)  # the same again is no more
    collect_garbage(now=timezone.now())
    with pytest.raises(QuotaExceeded):
        uploaded(client, b"2" * 70, ada)
    collect_garbage(now=timezone.now() + timedelta(days=2))
    uploaded(client, b"2" * 70, ada)


def test_addresses_that_were_given_out_count_before_anything_comes(ada: User, hundred_bytes: None) -> None:
    prepare_uploads([("a" * 64, 70)], holder=ada.owner.pk)
    with pytest.raises(QuotaExceeded):
        prepare_uploads([("b" * 64, 70)], holder=ada.owner.pk)


def test_what_does_not_fit_any_more_is_refused_and_not_kept(
    ada: User, client: Client, hundred_bytes: None, tmp_path: Path
) -> None:
    sha256 = uploaded(client, b"1" * 70, ada)
    store_bytes(b"x" * 60, holder=ada.owner.pk)
    with pytest.raises(QuotaExceeded):
        confirm_blob(sha256, 70, holder=ada.owner.pk)
    assert used(ada) == 60
    assert not BlobHolder.objects.filter(blob_id=sha256).exists()
    assert not list(tmp_path.rglob(sha256))
    assert not PendingUpload.objects.exists()


def test_what_a_run_brings_counts_once_it_is_confirmed(ada: User, client: Client, hundred_bytes: None) -> None:
    owner = ada.owner.pk
    data = [letter * 70 for letter in (b"1", b"2")]
    hashes = [hashlib.sha256(content).hexdigest() for content in data]
    tickets = prepare_uploads([(sha256, 70) for sha256 in hashes], holder=owner, by_run=True)
    for ticket, content in zip(tickets, data, strict=True):
        assert client.put(ticket.url.removeprefix("http://hub"), data=content).status_code == 204
    prepare_uploads([("a" * 64, 100)], holder=owner)
    confirm_blob(hashes[0], 70, holder=owner)
    assert used(ada) == 70
    with pytest.raises(QuotaExceeded):
        confirm_blob(hashes[1], 70, holder=owner)


def test_bytes_that_are_there_fit_even_when_all_is_full(ada: User, hundred_bytes: None) -> None:
    blob = store_bytes(b"x" * 100, holder=ada.owner.pk)
    assert prepare_uploads([(blob.sha256, 100)], holder=ada.owner.pk) == []
    assert confirm_blob(blob.sha256, 100, holder=ada.owner.pk) == blob


def test_one_owners_bytes_are_not_anothers(ada: User, hundred_bytes: None) -> None:
    store_bytes(b"x" * 100, holder=ada.owner.pk)
    store_bytes(b"y" * 100, holder=make_user("bob").owner.pk)


def test_nought_is_no_limit(ada: User, monkeypatch: pytest.MonkeyPatch, settings: object) -> None:
    settings.HUB = settings.HUB.model_copy(update={"owner_quota_gb": 0.0})  # type: ignore[attr-defined]
    assert quota(ada.owner.pk) is None
    prepare_uploads([("a" * 64, 10 * GB)], holder=ada.owner.pk)
    store_bytes(b"x", holder=ada.owner.pk)


def test_what_is_collected_is_given_back(ada: User) -> None:
    store_bytes(b"x" * 60, holder=ada.owner.pk)
    store_bytes(b"x" * 60, holder=make_user("bob").owner.pk)
    collect_garbage(now=timezone.now() + timedelta(days=2))
    assert used(ada) == 0


def test_what_becomes_everybodys_is_charged_to_nobody(ada: User) -> None:
    blob = store_bytes(b"x" * 60, holder=ada.owner.pk)
    share_blobs([blob.sha256])
    assert used(ada) == 0
    assert confirm_blob(blob.sha256, 60, holder=ada.owner.pk) == blob
    store_bytes(b"for all", holder=EVERYBODY)
    assert used(ada) == 0


def test_asking_costs_the_same_however_many_blobs_there_are(ada: User, hundred_bytes: None) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as asked:
            prepare_uploads([("a" * 64, 1)], holder=ada.owner.pk)
        assert not any("SUM(" in sql and "BLOB" in sql for sql in (q["sql"].upper() for q in asked.captured_queries))
        return len(asked)

    cost()  # makes the owner's counter
    before = cost()
    for number in range(20):
        store_bytes(str(number).encode(), holder=ada.owner.pk)
    assert cost() == before


def test_the_page_shows_what_is_used(
    ada: User, client: Client, hundred_bytes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.storage.pages.quotas", lambda owners: dict.fromkeys(owners, 100))
    store_bytes(b"x" * 95, holder=ada.owner.pk)
    client.force_login(ada)
    text = client.get("/settings/storage").text
    assert all(shown in text for shown in ("<td>ada</td>", "95 B", "100 B", "95 % used"))
    client.force_login(make_user("bob"))
    assert "<td>ada</td>" not in client.get("/settings/storage").text
