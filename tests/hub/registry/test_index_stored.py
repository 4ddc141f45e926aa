"""The index of kept wheels: builds find there what was deleted upstream; nobody else sees it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.test import Client

from hub.registry.models import StoredWheel
from hub.runs.models import Run
from tests.factories.accounts import make_token, make_user
from tests.factories.registry import push_version
from tests.factories.runs import hold_run
from tests.factories.storage import make_blob

pytestmark = pytest.mark.django_db
FILENAME = "numpy-2.0.0-py3-none-any.whl"


def get(path: str, secret: str) -> Any:
    credentials = base64.b64encode(f"run:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}", "Accept": "application/vnd.pypi.simple.v1+json"}
    return Client(headers=headers).get(f"/index/-/{path}")


def keep(*, shared: bool = True) -> StoredWheel:
    blob = make_blob()
    return StoredWheel.objects.create(blob=blob, filename=FILENAME, name="numpy", version="2.0.0", shared=shared)


@pytest.fixture
def build() -> str:
    return hold_run(Run.objects.get(pk=push_version().build_run_id))


def test_a_build_finds_a_kept_wheel(build: str) -> None:
    kept = keep()
    files = get("simple/NumPy/", build).json()["files"]
    assert [(file["filename"], file["hashes"]["sha256"]) for file in files] == [(FILENAME, kept.blob_id)]
    assert get(f"files/{kept.blob_id}/{FILENAME}", build).status_code == 200
    assert get("simple/scipy/", build).status_code == 404


def test_what_is_not_shared_is_not_there(build: str) -> None:
    kept = keep(shared=False)
    assert get("simple/numpy/", build).status_code == 404
    assert get(f"files/{kept.blob_id}/{FILENAME}", build).status_code == 404


def test_nobody_else_sees_it(build: str) -> None:
    kept = keep()
    for secret in ("", make_token(make_user())):
        assert get("simple/numpy/", secret).status_code == 404
        assert get(f"files/{kept.blob_id}/{FILENAME}", secret).status_code == 404
