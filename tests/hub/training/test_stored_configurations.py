"""Runs whose configuration today's rules would refuse: everything of them is still read; only work is refused."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.runs import RunState

from hub.core.errors import Invalid
from hub.training.models import TrainingRun
from hub.training.services import resume_training
from tests.factories.accounts import bearer, make_token
from tests.factories.training_runs import adapter_report, checkpoint_report, create_run, report, start
from tests.factories.training_showcase import TrainingShowcase
from tests.hub.training.addresses import NAMES, address

pytestmark = pytest.mark.django_db


def outdated(row: TrainingRun) -> None:
    trainer = {**row.config["trainer"], "loss": "vanished", "rank": 0}
    TrainingRun.objects.filter(pk=row.pk).update(config={**row.config, "vanished": 1, "trainer": trainer})
    row.refresh_from_db()


@pytest.fixture
def old(showcase: TrainingShowcase) -> TrainingShowcase:
    for row in TrainingRun.objects.all():
        outdated(row)
    return showcase


@pytest.mark.parametrize("name", NAMES)
def test_a_page_answers(old: TrainingShowcase, ada: Client, name: str) -> None:
    assert ada.get(address(old, name)).status_code == 200


@pytest.mark.parametrize("name", ["", "/{}"])
def test_the_api_answers_with_what_was_submitted(old: TrainingShowcase, ada: Client, name: str) -> None:
    path = f"/api/v1/training{name}".format(old.running.pk)
    reply = ada.get(path, headers=bearer(make_token(old.user)))
    assert reply.status_code == 200
    assert "vanished" in reply.content.decode()


def test_its_worker_may_still_report(db: None) -> None:
    training = create_run()
    start(training)
    outdated(training)
    assert report(training, checkpoint_report(1)).step == 1
    assert report(training, adapter_report(1)).step == 1


def test_resuming_says_what_is_refused(db: None) -> None:
    training = create_run()
    outdated(training)
    TrainingRun.objects.filter(pk=training.pk).update(state=RunState.FAILED.value)
    with pytest.raises(Invalid) as refused:
        resume_training(user=training.created_by, training=training)
    assert refused.value.fields.keys() == {"vanished", "trainer.loss", "trainer.rank"}
