"""What `[wandb]` needs is asked at submission."""

from __future__ import annotations

import pytest

from hub.accounts.models import User
from hub.core.errors import Invalid
from hub.training.payload import train_payload
from hub.training.services import create_training
from tests.factories.accounts import make_user
from tests.factories.registry import create_ready_version
from tests.factories.runs import make_worker
from tests.factories.training_runs import create_trainable, training_request

pytestmark = pytest.mark.django_db
KEY = {"WANDB_API_KEY": "k3y"}


@pytest.fixture
def alice() -> User:
    user = make_user("alice")
    create_ready_version(user)
    create_trainable(user.owner)
    return user


def submit(user: User, env: dict[str, str], more: str = ""):  # type: ignore[no-untyped-def]
    request = training_request(f'[wandb]\nproject = "p"\n{more}', env=env)
    return create_training(user=user, owner=user.owner, request=request)


def test_a_key_is_asked_for(alice: User) -> None:
    with pytest.raises(Invalid) as refused:
        submit(alice, {})
    assert "WANDB_API_KEY" in refused.value.message
    assert submit(alice, {}, 'mode = "offline"\n')  # which sends nothing


def test_a_worker_without_the_package_is_told_before_it_is_occupied(alice: User) -> None:
    worker = make_worker(queues=("train",))
    with pytest.raises(Invalid) as refused:
        submit(alice, KEY)
    assert "pip install wandb" in refused.value.hint
    worker.facts = {"wandb": True}
    worker.save()
    payload = train_payload(submit(alice, KEY).run)
    assert payload.secrets == KEY
    assert payload.environments[0].secrets == {}


def test_the_exporters_get_the_hubs_outbound_rules(alice: User, settings) -> None:  # type: ignore[no-untyped-def]
    changed = {"outbound_allow": ["mlflow.lan:5000"], "outbound_allow_loopback": False}
    settings.HUB = settings.HUB.model_copy(update=changed)
    outbound = train_payload(submit(alice, KEY).run).outbound
    assert (outbound.allow, outbound.allow_loopback) == (("mlflow.lan:5000",), False)
