"""The public wheels of a lock are charged to nobody, however large they are and whoever builds first."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import pytest
from django.test import Client

from hub.accounts.models import User
from hub.registry.models import StoredWheel, Version
from hub.runs.models import Run, Worker
from hub.storage.quota import used_by
from tests.factories.accounts import make_user
from tests.factories.registry import push_version
from tests.factories.runs import hold_run, make_worker, make_worker_token
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
SIZE = 60_000


@pytest.fixture
def alice(monkeypatch: pytest.MonkeyPatch) -> User:
    """Any of her wheels fits into her quota, two do not."""
    monkeypatch.setattr("hub.storage.quota.quota", lambda owner: 100_000)
    return make_user("alice")


def used(user: User) -> int:
    return used_by([user.owner.pk])[user.owner.pk]


def upload(secret: str, name: str) -> dict[str, Any]:
    """A wheel that a build's worker brings."""
    data = secrets.token_bytes(SIZE)
    sha256 = hashlib.sha256(data).hexdigest()
    reply = call(secret, "post", "blobs", {"blobs": [{"sha256": sha256, "size": SIZE}]})
    assert reply.status_code == 200, reply.text
    (ticket,) = reply.json()["missing"]
    assert Client().put(ticket["url"].removeprefix("http://127.0.0.1:8000"), data=data).status_code == 204
    filename = f"{name}-1.0-py3-none-any.whl"
    return {"name": name, "version": "1.0", "filename": filename, "sha256": sha256, "size": SIZE}


def build(version: Version, *names: str, worker: Worker | None = None) -> Any:
    """The report of a build whose lock has these wheels."""
    run = Run.objects.get(pk=version.build_run_id)
    secret = hold_run(run, worker=worker)
    wheels = [upload(secret, name) for name in names]
    lock = {"python": "3.11", "platform": "linux_x86_64", "verifiers": "", "wheels": wheels}
    return call(secret, "post", f"runs/{run.pk}/build-report", {"lock": lock})


def test_a_lock_that_is_larger_than_the_quota_is_kept(alice: User) -> None:
    version = push_version(alice)
    before = used(alice)
    assert build(version, "torch", "numpy", "scipy").status_code == 200
    assert StoredWheel.objects.filter(shared=True).count() == 3
    assert used(alice) == before


def test_a_build_that_fails_leaves_the_quota_as_it_was(alice: User) -> None:
    version = push_version(alice)
    secret = hold_run(Run.objects.get(pk=version.build_run_id))
    for name in ("torch", "numpy"):
        upload(secret, name)
    push_version(alice, "other-env")


def test_a_source_that_was_built_is_charged_to_nobody(alice: User) -> None:
    version = push_version(alice)
    before = used(alice)
    secret = hold_run(Run.objects.get(pk=version.build_run_id))
    for key, name in (("a", "wget"), ("b", "pycosat")):
        body = {"key": key * 64, **upload(secret, name)}
        assert call(secret, "post", "wheels", body).status_code == 201
    assert used(alice) == before


def test_what_a_worker_of_one_owner_brings_is_charged_to_it(alice: User) -> None:
    worker = make_worker(make_worker_token(owners=(alice.owner,))[1])
    version = push_version(alice)
    before = used(alice)
    assert build(version, "numpy", worker=worker).status_code == 200
    assert used(alice) == before + SIZE
    assert build(version, "scipy", worker=worker).json()["error"]["code"] == "quota_exceeded"
