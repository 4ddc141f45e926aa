"""What is served is what the model's files and the deployment's settings say: anything else is loaded anew."""

from __future__ import annotations

import pytest
from envhub.protocol.models.deployments import DeploymentRequest
from envhub.protocol.models.inference import ServeAddress, ServePayload
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.catalog.services import register_adapter, register_local
from hub.core.errors import NotFound
from hub.inference.models import Deployment
from hub.inference.routing import find_route
from hub.inference.services import create_deployment, report_address, serve_payload
from hub.runs.models import Run
from tests.factories.accounts import make_user
from tests.factories.runs import hold_run
from tests.factories.storage import make_blob
from tests.factories.training_runs import create_trainable

pytestmark = pytest.mark.django_db
ADDRESS = ServeAddress(base_url="http://127.0.0.1:4000/v1", secret="s" * 32)


@pytest.fixture
def user() -> User:
    return make_user("alice")


@pytest.fixture
def base(user: User) -> Model:
    return create_trainable(user.owner, "base")


def register(user: User, weights: bytes) -> None:
    files = {"config.json": make_blob(b"{}").sha256, "weights": make_blob(weights).sha256}
    register_local(owner=user.owner, name="local", engine="torch", files=files)


def register_lora(user: User, base: Model, weights: bytes) -> None:
    files = {"adapter_config.json": make_blob(b"{}").sha256, "adapter_model.safetensors": make_blob(weights).sha256}
    register_adapter(owner=user.owner, name="lora", base=base, files=files, visibility=Visibility.PRIVATE)


def current_run() -> Run:
    deployment = Deployment.objects.select_related("run").get()
    assert deployment.run is not None
    return deployment.run


def serve(run: Run) -> ServePayload:
    """What a worker does that claims the run."""
    hold_run(run)
    payload = serve_payload(run)
    report_address(run=run, address=ADDRESS)
    return payload


def is_ending(run: Run) -> bool:
    run.refresh_from_db()
    return run.cancel_requested_at is not None or run.state == "cancelled"


def test_a_replaced_model_is_loaded_anew_by_the_next_call(user: User) -> None:
    register(user, b"old")
    find_route(user, "alice/local")
    old = current_run()
    before = serve(old)
    assert find_route(user, "alice/local").variants
    register(user, b"new")
    assert not find_route(user, "alice/local").variants
    assert is_ending(old)
    assert serve(current_run()).target.fingerprint != before.target.fingerprint
    assert find_route(user, "alice/local").variants


def test_a_replaced_adapter_is_loaded_anew_over_the_same_base(user: User, base: Model) -> None:
    register_lora(user, base, b"old")
    find_route(user, "alice/lora")
    old = current_run()
    before = serve(old).target
    register_lora(user, base, b"new")
    assert not find_route(user, "alice/lora").variants
    assert is_ending(old)
    after = serve(current_run()).target
    assert after.fingerprint == before.fingerprint
    assert before.adapter is not None
    assert after.adapter is not None
    assert after.adapter.files != before.adapter.files


def test_the_same_files_again_change_nothing(user: User, base: Model) -> None:
    register_lora(user, base, b"same")
    find_route(user, "alice/lora")
    run = current_run()
    serve(run)
    register_lora(user, base, b"same")
    assert find_route(user, "alice/lora").variants
    assert current_run() == run


def test_a_run_that_nobody_has_claimed_serves_what_replaced_the_model(user: User) -> None:
    register(user, b"old")
    find_route(user, "alice/local")
    run = current_run()
    register(user, b"new")
    find_route(user, "alice/local")
    assert current_run() == run
    serve(run)
    assert find_route(user, "alice/local").variants


@pytest.mark.parametrize("change", [{"idle_seconds": 900.0}, {"engine": "vllm"}])
def test_other_settings_of_a_loaded_model_hold_at_once(user: User, base: Model, change: dict[str, object]) -> None:
    first = DeploymentRequest(model="alice/base", idle_seconds=60, engine="torch")
    create_deployment(user=user, request=first)
    old = current_run()
    serve(old)
    made = create_deployment(user=user, request=first.model_copy(update=change))
    assert is_ending(old)
    assert made.base_url == ""
    payload = serve(current_run())
    assert change.items() <= {"idle_seconds": payload.idle_seconds, "engine": payload.target.engine}.items()
    with pytest.raises(NotFound):
        report_address(run=old, address=ADDRESS)


def test_the_settings_that_hold_already_restart_nothing(user: User, base: Model) -> None:
    for engine in (None, "torch", None):
        create_deployment(user=user, request=DeploymentRequest(model="alice/base", idle_seconds=60, engine=engine))
        if not Deployment.objects.get().loaded_as:
            serve(current_run())
    assert Run.objects.filter(kind="serve").count() == 1


def test_what_a_stranger_asks_for_restarts_nothing(user: User) -> None:
    create_trainable(user.owner, "public", public=True)
    create_deployment(user=user, request=DeploymentRequest(model="alice/public", idle_seconds=60))
    run = current_run()
    serve(run)
    create_deployment(user=make_user("bob"), request=DeploymentRequest(model="alice/public", idle_seconds=9999))
    assert (current_run(), Deployment.objects.get().idle_seconds) == (run, 60)
