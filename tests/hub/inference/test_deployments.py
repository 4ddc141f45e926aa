"""Deployments of local models: loaded by a serve run, kept in step with it, deleted on request."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from envhub.protocol.models.deployments import DeploymentRequest
from envhub.protocol.models.inference import ServeAddress
from envhub.protocol.runs import Failure, FailureKind, RunState
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.catalog.services import delete_model, register_adapter
from hub.core.errors import Conflict, Invalid, NotAllowed, NotFound
from hub.inference.models import Deployment
from hub.inference.services import (
    create_deployment,
    delete_deployment,
    ensure_deployment,
    note_usage,
    report_address,
    serve_payload,
)
from hub.runs.models import Run
from hub.runs.services import end_attempt
from hub.runs.services.finishing import RELEASED, requeue_run
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.runs import hold_run
from tests.factories.storage import make_blob
from tests.factories.training_runs import create_trainable

pytestmark = pytest.mark.django_db
ADDRESS = ServeAddress(base_url="http://127.0.0.1:4000/v1/", secret="s" * 32)
BASE = "/api/v1/deployments"


@pytest.fixture
def user() -> User:
    return make_user("alice")


@pytest.fixture
def model(user: User) -> Model:
    return create_trainable(user.owner, "local")


@pytest.fixture
def adapter(user: User, model: Model) -> Model:
    files = {"adapter_config.json": make_blob().sha256, "adapter_model.safetensors": make_blob().sha256}
    return register_adapter(owner=user.owner, name="sort", base=model, files=files, visibility=Visibility.PRIVATE)


def loaded(model: Model, user: User) -> tuple[Deployment, Run]:
    """A deployment whose run has reported its address."""
    deployment = ensure_deployment(model=model, user=user)
    run = Run.objects.get(pk=deployment.run_id)
    hold_run(run)
    report_address(run=run, address=ADDRESS)
    return deployment, run


def _get(path: str, user: User) -> Any:
    return Client().get(path, headers=bearer(make_token(user))).json()


def test_one_model_has_one_deployment_and_one_run(model: Model, user: User) -> None:
    assert ensure_deployment(model=model, user=user) == ensure_deployment(model=model, user=user)
    assert Run.objects.filter(kind="serve").count() == 1


def test_the_reported_address_is_kept_with_its_secret_encrypted(model: Model, user: User) -> None:
    deployment, _ = loaded(model, user)
    deployment.refresh_from_db()
    assert deployment.base_url == "http://127.0.0.1:4000/v1"
    assert ADDRESS.secret not in deployment.encrypted_secret


def test_an_ended_run_unloads_the_model_and_the_next_call_loads_it_again(model: Model, user: User) -> None:
    deployment, run = loaded(model, user)
    end_attempt(run=run, to=RunState.SUCCEEDED, now=timezone.now())
    assert _get(f"{BASE}/{deployment.pk}", user)["state"] is None
    again = ensure_deployment(model=model, user=user)
    assert (again, again.base_url) == (deployment, "")
    assert again.run_id != run.pk


def test_a_failed_run_is_shown_with_its_reason_until_the_next_call(model: Model, user: User) -> None:
    deployment, run = loaded(model, user)
    failure = Failure(kind=FailureKind.LIMIT, code="engine_failed", message="too large", hint="use less")
    end_attempt(run=run, to=RunState.FAILED, now=timezone.now(), failure=failure)
    view = _get(f"{BASE}/{deployment.pk}", user)
    assert (view["state"], view["failure"]["hint"]) == ("failed", "use less")


def test_a_lost_worker_forgets_the_address_but_not_the_deployment(model: Model, user: User) -> None:
    deployment, run = loaded(model, user)
    requeue_run(run=run, failure=RELEASED, now=timezone.now())
    deployment.refresh_from_db()
    assert (deployment.base_url, deployment.run_id) == ("", run.pk)


def test_an_adapter_is_served_over_its_base_as_asked_for(adapter: Model, model: Model, user: User) -> None:
    deployment = create_deployment(user=user, request=DeploymentRequest(model="alice/sort", idle_seconds=60))
    payload = serve_payload(Run.objects.get(pk=deployment.run_id))
    assert (payload.idle_seconds, set(payload.target.files)) == (
        60,
        {"config.json", "model.safetensors", "tokenizer.json"},
    )
    assert payload.target.adapter is not None
    assert set(payload.target.adapter.files) == {"adapter_config.json", "adapter_model.safetensors"}
    assert _get(f"{BASE}/{deployment.pk}", user)["base"] == "alice/local"


def test_an_outside_endpoint_needs_no_deployment(user: User) -> None:
    create_endpoint(user)
    with pytest.raises(Invalid, match="outside endpoint"):
        create_deployment(user=user, request=DeploymentRequest(model="alice/stub"))


def test_a_deleted_deployment_stops_its_run(model: Model, user: User) -> None:
    _, run = loaded(model, user)
    deployment = Deployment.objects.select_related("run", "model__owner").get()
    deployment.run = None  # as it was read, before a call loaded the model
    delete_deployment(user=user, deployment=deployment)
    run.refresh_from_db()
    assert run.cancel_requested_at is not None
    with pytest.raises(Conflict, match="deleted"):
        serve_payload(run)
    with pytest.raises(NotFound):
        report_address(run=run, address=ADDRESS)


def test_only_members_delete_and_set_a_deployment(user: User) -> None:
    model = create_trainable(user.owner, "public", public=True)
    stranger = make_user("bob")
    create_deployment(user=stranger, request=DeploymentRequest(model="alice/public", idle_seconds=9999))
    deployment = Deployment.objects.select_related("model__owner", "run").get(model=model)
    assert deployment.idle_seconds < 9999
    with pytest.raises(NotAllowed):
        delete_deployment(user=stranger, deployment=deployment)


def test_a_model_that_is_deployed_is_not_deleted(model: Model, user: User) -> None:
    ensure_deployment(model=model, user=user)
    response = Client().delete("/api/v1/models/alice/local", headers=bearer(make_token(user)))
    assert (response.status_code, response.json()["error"]["code"]) == (409, "in_use")
    assert "hub deploy delete alice/local" in response.json()["error"]["hint"]


def test_the_page_says_that_a_model_is_deployed_and_how_to_end_that(model: Model, user: User, client: Client) -> None:
    deployment = ensure_deployment(model=model, user=user)
    client.force_login(user)
    refused = client.post("/models/alice/local/delete")
    assert (refused.status_code, "hub deploy delete alice/local" in refused.text) == (409, True)
    delete_deployment(user=user, deployment=deployment)
    assert client.post("/models/alice/local/delete").status_code == 302


def test_a_base_keeps_its_files_while_adapters_belong_to_it(adapter: Model, model: Model, user: User) -> None:
    with pytest.raises(Conflict, match="adapters"):
        create_trainable(user.owner, "local")
    with pytest.raises(Conflict, match="in use by adapters"):
        delete_model(user=user, model=model)
    delete_model(user=user, model=adapter)
    delete_model(user=user, model=model)


def test_usage_is_counted(model: Model, user: User) -> None:
    deployment = ensure_deployment(model=model, user=user)
    for tokens in (3, 4):
        note_usage(deployment_id=deployment.pk, prompt_tokens=tokens, completion_tokens=1, now=timezone.now())
    view = _get(f"{BASE}/{deployment.pk}", user)
    assert view["usage"] == {"requests": 2, "prompt_tokens": 7, "completion_tokens": 2}
    assert view["last_used_at"]


def test_the_list_costs_few_queries_and_shows_only_ones_own(user: User) -> None:
    for number in range(4):
        ensure_deployment(model=create_trainable(user.owner, f"m{number}"), user=user)
    token = bearer(make_token(user))
    with CaptureQueriesContext(connection) as queries:
        items = Client().get(BASE, headers=token).json()["items"]
    assert (items[0]["model"], len(items)) == ("alice/m3", 4)
    assert {item["waiting_for"] for item in items} == {"no serve worker is online"}
    assert len(queries) <= 12
    assert _get(BASE, make_user("bob"))["items"] == []


def test_a_model_on_several_gpus_waits_for_a_worker_that_has_them(model: Model, user: User) -> None:
    Model.objects.filter(pk=model.pk).update(engine="vllm")
    deployment = create_deployment(user=user, request=DeploymentRequest(model="alice/local", gpus=2))
    first = Run.objects.get(pk=deployment.run_id)
    assert (first.gpus, first.queue) == (2, "serve")
    hold_run(first)
    payload = serve_payload(first)
    assert payload.target.gpus == 2
    assert create_deployment(user=user, request=DeploymentRequest(model="alice/local", gpus=2)).run_id == first.pk
    again = create_deployment(user=user, request=DeploymentRequest(model="alice/local", idle_seconds=60))
    assert again.run_id != first.pk
    assert Run.objects.get(pk=again.run_id).gpus == 0
    assert _get(BASE, user)["items"][0]["gpus"] is None


def test_gpus_that_a_model_cannot_be_split_over_are_refused(model: Model, user: User) -> None:
    with pytest.raises(Invalid, match="torch engine does not use GPUs"):
        create_deployment(user=user, request=DeploymentRequest(model="alice/local", gpus=2))
    with pytest.raises(Invalid, match=r"cannot be split over 7 GPUs: gpus may be 1"):
        create_deployment(user=user, request=DeploymentRequest(model="alice/local", engine="vllm", gpus=7))
