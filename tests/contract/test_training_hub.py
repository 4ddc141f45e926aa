"""The fake hub of the command line's tests answers as the real one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from envhub.client.hub import HubClient
from envhub.errors import Invalid, NotFound
from envhub.protocol.models.deployments import DeploymentRequest
from envhub.protocol.runs import RunState
from envhub.protocol.training.runs import TrainingRequest

from hub.training.models import TrainingRun
from tests.factories.accounts import make_token, make_user
from tests.factories.registry import create_ready_version
from tests.factories.training_runs import (
    adapter_report,
    checkpoint_report,
    create_trainable,
    report,
    start,
    step_report,
)
from tests.fakes.training_hub import TrainingHub

pytestmark = pytest.mark.django_db
TOML = 'model = "base"\nbatch_size = 8\nmax_steps = 3\n[[env]]\nid = "reverse-text"\n'


@dataclass
class Subject:
    """A hub with one client; `work` lets the submitted run finish its three steps."""

    client: HubClient
    work: Callable[[], None]


@pytest.fixture(params=["fake", "real"])
def hub(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param == "fake":
        fake = TrainingHub()
        with HubClient("http://hub.test", "hub_x", transport=fake.transport) as client:
            yield Subject(client, lambda: [client.runs.get("r1") for _ in range(3)] and None)
        return
    alice = make_user("alice")
    create_ready_version(alice, "reverse-text")
    create_trainable(alice.owner)
    for signal in (request_started, request_finished):  # the test's transaction lives on this connection
        signal.disconnect(close_old_connections)
    transport = httpx.WSGITransport(get_wsgi_application())
    with HubClient("http://127.0.0.1:8000", make_token(alice), transport=transport) as client:
        yield Subject(client, play_worker)
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def play_worker() -> None:
    training = TrainingRun.objects.get()
    start(training)
    for step in (1, 2, 3):
        report(training, step_report(step))
    report(training, checkpoint_report(3))
    report(training, adapter_report(3, final=True))


def test_a_wrong_key_is_named_by_line_and_path(hub: Subject) -> None:
    with pytest.raises(Invalid) as caught:
        hub.client.training.create(TrainingRequest(toml=TOML + "ratoi = 1\n"))
    assert caught.value.fields["line 6, env[0].ratoi"].startswith("is unknown. Did you mean 'ratio'?")


def test_a_run_is_queued_and_its_steps_are_read_in_order(hub: Subject) -> None:
    view = hub.client.training.create(TrainingRequest(toml=TOML))
    assert (view.state, view.max_steps) == (RunState.QUEUED, 3)
    hub.work()
    key = view.id
    assert [step.step for step in hub.client.training.metrics(key)] == [1, 2, 3]
    assert [step.step for step in hub.client.training.metrics(key, after_step=2)] == [3]
    assert hub.client.training.get(key).step == 3
    assert next(hub.client.training.rollouts(key)).index == 0
    assert hub.client.training.rollout(key, 3, 0).extras["training"]["turns"]
    assert next(hub.client.training.checkpoints(key)).files > 0
    assert [item.id for item in hub.client.training.list()] == [key]


def test_an_export_is_json_lines(hub: Subject, tmp_path: Path) -> None:
    view = hub.client.training.create(TrainingRequest(toml=TOML))
    hub.work()
    exported = hub.client.training.export(view.id, tmp_path / "m.jsonl")
    assert exported.read_text().startswith('{"step":') or exported.read_text().startswith('{"step": ')


def test_a_run_that_is_not_there_is_not_found(hub: Subject) -> None:
    with pytest.raises(NotFound):
        hub.client.training.get("0190163d-0000-7000-8000-000000000000")


def test_a_stopped_run_is_answered(hub: Subject) -> None:
    view = hub.client.training.create(TrainingRequest(toml=TOML))
    assert hub.client.training.stop(view.id).state is RunState.CANCELLED


def test_a_model_is_deployed_and_no_longer(hub: Subject) -> None:
    made = hub.client.deployments.create(DeploymentRequest(model="alice/base"))
    assert (made.model, made.state) == ("alice/base", RunState.QUEUED)
    assert [item.id for item in hub.client.deployments.list()] == [made.id]
    hub.client.deployments.delete(made.id)
    assert list(hub.client.deployments.list()) == []
