"""Evaluations whose configuration today's rules would refuse: all of them is still read; only work is refused."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.runs import RunState

from hub.core.errors import Invalid
from hub.evals.models import Evaluation
from hub.evals.services import resume_evaluation
from hub.runs.errors import NotClaimable
from hub.runs.models import Run
from hub.runs.services import claim_run
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, make_records, start, store
from tests.factories.runs import make_worker

pytestmark = pytest.mark.django_db


def outdated(row: Evaluation) -> Evaluation:
    Evaluation.objects.filter(pk=row.pk).update(config={**row.config, "vanished": "yes", "concurrency": 0})
    row.refresh_from_db()
    return row


@pytest.fixture
def old() -> Evaluation:
    """Two of ada's, which has ended with what it had; the second is answered."""
    user = make_user("ada")
    for _ in range(2):
        found = create_hosted(user)
        start(found)
        store(found, make_records((1.0, 0.0)))
        outdated(found)
    Evaluation.objects.update(state=RunState.SUCCEEDED.value)
    return found


@pytest.fixture
def ada(old: Evaluation) -> Client:
    client = Client()
    client.force_login(old.created_by)
    return client


@pytest.mark.parametrize(
    "address",
    ["/evaluations", "/evaluations/{}", "/environments/ada/tiny-env/evaluations", "/evaluations/compare?a={}"],
)
def test_a_page_answers(old: Evaluation, ada: Client, address: str) -> None:
    assert ada.get(address.format(old.pk)).status_code == 200


def test_its_page_shows_what_was_submitted(old: Evaluation, ada: Client) -> None:
    names = [name for name, _ in ada.get(f"/evaluations/{old.pk}").context["configuration"]]
    assert names[0] == "num_examples"
    assert names[-1] == "vanished"


def test_comparing_shows_settings_that_one_side_alone_has(old: Evaluation, ada: Client) -> None:
    today = create_hosted(old.created_by)
    settings = ada.get(f"/evaluations/compare?a={old.pk}&b={today.pk}").context["settings"]
    assert settings == [("vanished", ["yes", "null"])]


@pytest.mark.parametrize("address", ["/api/v1/evaluations", "/api/v1/evaluations/{}"])
def test_the_api_answers_with_what_was_submitted(old: Evaluation, ada: Client, address: str) -> None:
    reply = ada.get(address.format(old.pk), headers=bearer(make_token(old.created_by)))
    assert reply.status_code == 200
    assert "vanished" in reply.content.decode()


def test_resuming_says_what_is_refused(old: Evaluation) -> None:
    with pytest.raises(Invalid) as refused:
        resume_evaluation(user=old.created_by, evaluation=old)
    assert refused.value.fields.keys() == {"vanished", "concurrency"}


def test_one_that_waited_fails_with_what_is_refused() -> None:
    waiting = outdated(create_hosted())
    with pytest.raises(NotClaimable):
        claim_run(run_id=str(waiting.run_id), worker=make_worker(), now=timezone.now())
    run = Run.objects.get(pk=waiting.run_id)
    assert run.failure is not None
    assert "vanished" in run.failure["message"]
