"""The page of a model says which of its scores this hub has measured, and whether it is served."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.evals.models import Evaluation
from hub.inference.services import delete_deployment, ensure_deployment
from hub.runs.models import Run
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, create_pushed, make_records, start, store
from tests.factories.runs import hold_run
from tests.factories.training_runs import create_trainable

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("pushed", [False, True])
def test_a_score_that_somebody_uploaded_is_marked(client: Client, pushed: bool) -> None:
    alice = make_user("alice")
    evaluation = create_hosted(alice)
    if pushed:
        evaluation.delete()
        evaluation = create_pushed(alice, "alice/tiny-env")
        Evaluation.objects.filter(pk=evaluation.pk).update(model_name="alice/stub")
        evaluation.refresh_from_db()
    else:
        start(evaluation)
    store(evaluation, make_records([1.0, 0.0]))
    client.force_login(alice)
    page = client.get("/models/alice/stub").text
    assert "0.500" in page
    assert ("self-reported" in page) is pushed


def test_a_deployment_that_was_deleted_is_ending_until_its_run_has(client: Client) -> None:
    alice = make_user("alice")
    deployment = ensure_deployment(model=create_trainable(alice.owner), user=alice)
    hold_run(Run.objects.get(pk=deployment.run_id))
    client.force_login(alice)
    assert ">served<" in client.get("/models/alice/base").text
    delete_deployment(user=alice, deployment=deployment)
    page = client.get("/models/alice/base").text
    assert ">ending<" in page
    assert "answers under way have 5 minutes" in page
