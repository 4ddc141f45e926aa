"""Uploads in two steps, over HTTP."""

from __future__ import annotations

import hashlib
import uuid

import pytest
from django.test import Client

from hub.core.errors import Invalid
from hub.storage.models import Blob
from hub.storage.services import confirm_blob, open_blob, prepare_uploads, presign_get, store_bytes
from tests.factories.accounts import bearer, make_token, make_user

pytestmark = pytest.mark.django_db
HOLDER = uuid.UUID(int=7)
HELLO = hashlib.sha256(b"hello").hexdigest()


def upload(client: Client, data: bytes, *, sha256: str | None = None) -> int:
    sha256 = sha256 or hashlib.sha256(data).hexdigest()
    [upload] = prepare_uploads([(sha256, len(data))], holder=HOLDER)
    path = upload.url.removeprefix("http://127.0.0.1:8000")
    return client.put(path, data=data, headers=upload.headers).status_code


def test_only_blobs_that_the_hub_lacks_are_asked_for(client: Client) -> None:
    user = make_user()
    known = store_bytes(b"known", holder=user.owner.pk)
    body = {"blobs": [{"sha256": known.sha256, "size": 5}, {"sha256": HELLO, "size": 5}]}
    token = make_token(user)
    reply = client.post("/api/v1/blobs", body, content_type="application/json", headers=bearer(token))
    assert [upload["sha256"] for upload in reply.json()["missing"]] == [HELLO]


def test_an_uploaded_blob_can_be_confirmed_and_read(client: Client) -> None:
    assert upload(client, b"uploaded once") == 204
    sha256 = hashlib.sha256(b"uploaded once").hexdigest()
    assert confirm_blob(sha256, 13, holder=HOLDER).size == 13
    assert open_blob(sha256).read() == b"uploaded once"


def test_other_bytes_than_announced_are_refused(client: Client) -> None:
    sha256 = hashlib.sha256(b"right").hexdigest()
    assert upload(client, b"wrong", sha256=sha256) == 422
    with pytest.raises(Invalid, match="not been uploaded"):
        confirm_blob(sha256, 5, holder=HOLDER)
    assert not Blob.objects.exists()


def test_more_bytes_than_announced_are_refused(client: Client) -> None:
    sha256 = hashlib.sha256(b"long text").hexdigest()
    [ticket] = prepare_uploads([(sha256, 3)], holder=HOLDER)
    reply = client.put(ticket.url.removeprefix("http://127.0.0.1:8000"), data=b"long text")
    assert reply.status_code == 413


@pytest.mark.parametrize(
    ("header", "status", "body"),
    [("bytes=2-4", 206, b"234"), ("bytes=7-", 206, b"789"), ("bytes=-2", 206, b"89"), ("bytes=20-", 416, b"")],
)
def test_a_range_of_a_blob_can_be_read(client: Client, header: str, status: int, body: bytes) -> None:
    url = presign_get(store_bytes(b"0123456789").sha256).removeprefix("http://127.0.0.1:8000")
    reply = client.get(url, headers={"Range": header})
    assert reply.status_code == status
    assert reply.getvalue() == body


def test_a_blob_is_never_shown_inline(client: Client) -> None:
    url = presign_get(store_bytes(b"<script>").sha256, filename='evil".html').removeprefix("http://127.0.0.1:8000")
    reply = client.get(url)
    assert reply["Content-Disposition"].startswith('attachment; filename="evil_.html"')
    assert reply["Content-Type"] == "application/octet-stream"
    assert reply["X-Content-Type-Options"] == "nosniff"


def test_a_signature_is_good_for_its_blob_and_verb_only(client: Client) -> None:
    one, two = store_bytes(b"one").sha256, store_bytes(b"two").sha256
    url = presign_get(one).removeprefix("http://127.0.0.1:8000")
    assert client.get(url.replace(one, two)).status_code == 403
    assert client.put(url, data=b"one").status_code == 403
    assert client.get(f"/api/v1/blobs/{one}").json()["error"]["code"] == "bad_signature"
