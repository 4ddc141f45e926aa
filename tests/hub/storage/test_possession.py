"""Knowing a SHA-256 gives no access to the bytes: who refers to them must have shown them."""

from __future__ import annotations

import hashlib
import io
import secrets
import uuid
from datetime import timedelta

import httpx
import pytest
from django.test import Client
from django.utils import timezone

from hub.accounts.models import User
from hub.core.errors import Invalid
from hub.evals.services import add_segment
from hub.registry.models import Version
from hub.registry.services import begin_push, complete_push
from hub.storage.backends.interface import Backend
from hub.storage.services import confirm_blob, prepare_uploads, share_blobs
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_pushed, make_record, make_segment
from tests.factories.registry import build_pair, create_ready_version, push_pair

pytestmark = pytest.mark.django_db(transaction=True)
ALICE, MALLORY = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def mallory() -> User:
    return make_user("mallory")


def put(data: bytes, holder: uuid.UUID) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    (upload,) = prepare_uploads([(sha256, len(data))], holder=holder)
    assert httpx.put(upload.url, content=data, headers=upload.headers).status_code in (200, 204)
    return sha256


def test_what_another_owner_has_stored_must_be_uploaded_again(store: Backend) -> None:
    data = secrets.token_bytes(64)
    sha256 = put(data, ALICE)
    confirm_blob(sha256, 64, holder=ALICE)
    with pytest.raises(Invalid, match="not been uploaded"):
        confirm_blob(sha256, 64, holder=MALLORY)
    assert put(data, MALLORY) == sha256
    assert confirm_blob(sha256, 64, holder=MALLORY).sha256 == sha256
    assert prepare_uploads([(sha256, 64)], holder=MALLORY) == []


def test_what_another_owner_is_uploading_is_not_there_for_others(store: Backend) -> None:
    sha256 = put(secrets.token_bytes(64), ALICE)
    with pytest.raises(Invalid, match="not been uploaded"):
        confirm_blob(sha256, 64, holder=MALLORY)


def test_bytes_that_lie_in_the_store_without_a_row_are_nobodys(store: Backend) -> None:
    data = secrets.token_bytes(64)
    store.write(hashlib.sha256(data).hexdigest(), io.BytesIO(data))
    with pytest.raises(Invalid, match="not been uploaded"):
        confirm_blob(hashlib.sha256(data).hexdigest(), 64, holder=MALLORY)


def test_an_address_for_an_inbox_takes_no_other_bytes(store: Backend) -> None:
    wanted, other = secrets.token_bytes(64), secrets.token_bytes(64)
    sha256 = hashlib.sha256(wanted).hexdigest()
    (upload,) = prepare_uploads([(sha256, 64)], holder=MALLORY)
    httpx.put(upload.url, content=other, headers=upload.headers)
    with pytest.raises(Invalid):
        confirm_blob(sha256, 64, holder=MALLORY)


def test_confirming_twice_is_one_blob_and_empties_the_inbox(store: Backend) -> None:
    sha256 = put(secrets.token_bytes(64), ALICE)
    assert confirm_blob(sha256, 64, holder=ALICE) == confirm_blob(sha256, 64, holder=ALICE)
    assert store.take_upload(sha256, ALICE) is None


def test_what_is_shared_is_not_asked_for(store: Backend) -> None:
    sha256 = put(secrets.token_bytes(64), ALICE)
    confirm_blob(sha256, holder=ALICE)
    share_blobs([sha256])
    share_blobs([sha256])
    assert prepare_uploads([(sha256, 64)], holder=MALLORY) == []


def test_an_upload_that_nobody_confirms_is_dropped_in_time(store: Backend) -> None:
    sha256 = put(secrets.token_bytes(64), ALICE)
    store.drop_old_uploads(timezone.now() - timedelta(hours=1))
    assert store.take_upload(sha256, ALICE) == 64
    store.drop_old_uploads(timezone.now() + timedelta(minutes=1))
    assert store.take_upload(sha256, ALICE) is None


def test_a_push_that_names_anothers_private_files_cannot_be_completed(mallory: User) -> None:
    pair = build_pair("secret-env")
    push_pair(make_user("alice"), pair)
    begun = begin_push(owner=mallory.owner, user=mallory, request=pair.request())
    assert len(begun.missing) == 2
    with pytest.raises(Invalid, match="not been uploaded"):
        complete_push(push=begun.push)
    assert not Version.objects.filter(environment__owner=mallory.owner).exists()


def test_an_evaluation_that_names_anothers_segment_is_refused(mallory: User) -> None:
    version = create_ready_version(mallory)
    private = push_pair(make_user("alice"), build_pair("secret-env")).version
    evaluation = create_pushed(mallory, f"mallory/{version.environment.name}")
    request = make_segment([make_record()]).model_copy(update={"sha256": private.wheel_id, "size": private.wheel.size})
    with pytest.raises(Invalid, match="not been uploaded"):
        add_segment(evaluation=evaluation, request=request, trusted=False)


def test_a_model_that_names_anothers_file_is_refused(client: Client, mallory: User) -> None:
    private = push_pair(make_user("alice"), build_pair("secret-env")).version
    body = {"engine": "torch", "files": {"model.safetensors": private.wheel_id}}
    headers = bearer(make_token(mallory))
    url = "/api/v1/models/mallory/m/files"
    assert client.put(url, body, content_type="application/json", headers=headers).status_code == 422


def test_nobody_uploads_for_an_owner_of_others(client: Client, mallory: User) -> None:
    make_user("alice")
    body = {"owner": "alice", "blobs": []}
    reply = client.post("/api/v1/blobs", body, content_type="application/json", headers=bearer(make_token(mallory)))
    assert reply.status_code == 404
