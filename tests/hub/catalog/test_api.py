"""The catalog over HTTP, driven by the SDK's own wire types."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import Page
from envhub.protocol.models.catalog import (
    LocalModelRequest,
    ModelFiles,
    ModelRequest,
    ModelSource,
    ModelTest,
    ModelView,
)
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.catalog import create_endpoint, endpoint_request
from tests.factories.storage import make_blob
from tests.fakes.policy_endpoint import Fault, PolicyEndpoint

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def _call(method: str, path: str, user: User | None, body: str = "", *scopes: Scope) -> Any:
    headers = bearer(make_token(user, *scopes)) if user else {}
    return Client().generic(method, f"/api/v1/models{path}", body, content_type="application/json", headers=headers)


def _put(user: User, request: ModelRequest, path: str = "/alice/stub") -> Any:
    return _call("PUT", path, user, _json(request))


def _json(request: ModelRequest) -> str:
    return request.model_dump_json()


def test_a_model_is_saved_listed_shown_and_deleted(alice: User) -> None:
    saved = ModelView.model_validate_json(_put(alice, endpoint_request()).content)
    assert (saved.owner, saved.name, saved.variants[0].has_key) == ("alice", "stub", True)
    assert Page[ModelView].model_validate_json(_call("GET", "", alice).content).items == (saved,)
    assert ModelView.model_validate_json(_call("GET", "/alice/stub", alice).content) == saved
    assert _call("DELETE", "/alice/stub", alice).status_code == 204
    assert _call("GET", "/alice/stub", alice).status_code == 404


def test_a_name_with_a_dot_can_be_addressed(alice: User) -> None:
    assert _put(alice, endpoint_request("gpt-4.1"), "/alice/gpt-4.1").status_code == 200
    assert _call("GET", "/alice/gpt-4.1", alice).status_code == 200


def test_the_key_never_comes_back(alice: User) -> None:
    _put(alice, endpoint_request())
    assert b"sk-secret" not in _call("GET", "/alice/stub", alice).content


def test_others_see_neither_where_a_public_model_is_nor_what_its_endpoint_said(alice: User) -> None:
    model = create_endpoint(alice, public=True)
    model.last_error = "http://inside.example:9000: 402: the account of Alice is empty"
    model.save()
    address = ModelView.model_validate_json(_call("GET", "/alice/stub", alice).content).variants[0].base_url
    assert address
    for path in ("", "/alice/stub"):
        seen = _call("GET", path, make_user(f"other-{len(path)}")).content
        assert b"stub" in seen
        assert b"its last test failed" in seen
        assert address.encode() not in seen
        assert b"inside.example" not in seen
        assert b"inside.example" in _call("GET", path, alice).content


def test_saving_with_a_test_says_which_variant_failed(alice: User, endpoint: PolicyEndpoint) -> None:
    endpoint.always = Fault.NO_KEY
    request = endpoint_request(base_url=endpoint.base_url).model_copy(update={"test": True})
    response = _put(alice, request)
    assert response.status_code == 422
    assert "401" in response.json()["error"]["fields"]["variants.0"]


def test_a_model_is_tested_on_request(alice: User, endpoint: PolicyEndpoint) -> None:
    create_endpoint(alice, base_url=endpoint.base_url)
    result = ModelTest.model_validate_json(_call("POST", "/alice/stub/test", alice).content)
    assert (result.ok, result.variants[0].ok) == (True, True)


def test_a_directory_is_registered_from_uploaded_files(alice: User) -> None:
    body = LocalModelRequest(files={"config.json": make_blob().sha256}).model_dump_json()
    view = ModelView.model_validate_json(_call("PUT", "/alice/tiny/files", alice, body).content)
    assert (view.source, view.engine) == (ModelSource.LOCAL, "torch")


def test_the_url_and_the_body_must_name_the_same_model(alice: User) -> None:
    assert _put(alice, endpoint_request("other")).status_code == 422


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_private_model_is_not_found_by_others(alice: User, method: str) -> None:
    create_endpoint(alice)
    assert _call(method, "/alice/stub", make_user()).status_code == 404


def test_nobody_registers_in_anothers_namespace(alice: User) -> None:
    assert _put(make_user(), endpoint_request()).status_code == 404


def test_a_public_model_is_listed_for_everybody_without_its_key(alice: User) -> None:
    create_endpoint(alice, public=True)
    (item,) = _call("GET", "", None).json()["items"]
    assert item["name"] == "stub"


def test_writing_needs_the_scope(alice: User) -> None:
    assert _call("PUT", "/alice/stub", alice, _json(endpoint_request()), Scope.READ).status_code == 403
    assert _call("PUT", "/alice/stub", None, _json(endpoint_request())).status_code == 401


def test_files_of_a_public_model_are_for_members_alone(alice: User) -> None:
    blob = make_blob(b"weights")
    request = LocalModelRequest(files={"model.safetensors": blob.pk}, visibility=Visibility.PUBLIC)
    assert _call("PUT", "/alice/own/files", alice, request.model_dump_json()).status_code == 200
    files = ModelFiles.model_validate_json(_call("GET", "/alice/own/files", alice).content).files
    assert (files["model.safetensors"].sha256, files["model.safetensors"].size) == (blob.pk, 7)
    other = _call("GET", "/alice/own/files", make_user("bob"))
    assert (other.status_code, b"url" in other.content) == (403, False)
    assert _call("GET", "/alice/own/files", None).status_code == 401
