"""`prime deployments` of prime 0.6 to 0.13, and what it says of calls to an adapter."""

from __future__ import annotations

import pytest

from hub.accounts.models import User
from hub.inference.models import Deployment
from hub.training.models import Adapter, TrainingRun
from tests.factories.accounts import make_owner, make_user
from tests.factories.training_runs import adapter_report, checkpoint_report, create_run, report, start
from tests.hub.compat.prime_client import PrimeClient

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def trained(user: User) -> TrainingRun:
    """A run with an adapter of step 3, and checkpoints of steps 2 and 3."""
    training = create_run(user)
    start(training)
    for said in (checkpoint_report(2), checkpoint_report(3), adapter_report(3)):
        report(training, said)
    return training


def test_adapters_are_listed_with_their_bases(alice: User) -> None:
    training, prime = trained(alice), PrimeClient(alice)
    found = prime.done("get", "rft/adapters", limit=20)
    (shown,) = found["adapters"]
    model = Adapter.objects.get().model
    assert (shown["id"], found["total"]) == (f"alice/{model.name}", 1)
    assert (shown["rftRunId"], shown["step"], shown["status"]) == (str(training.pk), 3, "READY")
    assert (shown["deploymentStatus"], shown["deployedAt"]) == ("NOT_DEPLOYED", None)
    assert prime.done("get", "rft/deployable-models")["models"] == [shown["baseModel"]]
    assert prime.done("get", f"rft/adapters/{shown['id']}")["adapter"] == shown
    make_owner("lab", members=[alice])
    assert prime.done("get", "rft/adapters", team_id="lab")["adapters"] == []


def test_an_adapter_is_deployed_and_unloaded(alice: User) -> None:
    trained(alice)
    prime, model = PrimeClient(alice), Adapter.objects.get().model
    place = f"rft/adapters/alice/{model.name}"
    assert prime.call("post", f"{place}/unload").status_code == 409
    assert prime.done("post", f"{place}/deploy")["adapter"]["deploymentStatus"] == "DEPLOYING"
    Deployment.objects.update(base_url="http://127.0.0.1:9/v1")
    (shown,) = prime.done("get", "rft/adapters")["adapters"]
    assert shown["deploymentStatus"] == "DEPLOYED"
    assert prime.done("post", f"{place}/unload")["adapter"]["deploymentStatus"] == "NOT_DEPLOYED"
    assert not Deployment.objects.exists()


def test_a_checkpoint_is_deployed_by_its_adapter(alice: User) -> None:
    training, prime = trained(alice), PrimeClient(alice)
    without, with_one = (training.checkpoints.get(step=step).pk for step in (2, 3))
    assert "no adapter of step 2" in prime.call("post", f"rft/checkpoints/{without}/deploy").json()["detail"]
    made = prime.done("post", f"rft/checkpoints/{with_one}/deploy")["adapter"]
    assert (made["step"], made["deploymentStatus"]) == (3, "DEPLOYING")


def test_a_model_that_no_run_has_made_is_none(alice: User) -> None:
    trained(alice)
    base = Adapter.objects.get().model.base
    assert base is not None
    told = PrimeClient(alice).call("get", f"rft/adapters/alice/{base.name}")
    assert (told.status_code, "was not made by a training run" in told.json()["detail"]) == (404, True)
