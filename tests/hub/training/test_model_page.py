"""The page of a model says which of its scores this hub has measured, and whether it is served."""

from __future__ import annotations

from html import unescape

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.runs import Failure, FailureKind, RunState

from hub.evals.models import Evaluation
from hub.inference.services import delete_deployment, ensure_deployment, note_usage
from hub.runs.models import Run
from hub.runs.services import end_attempt
from hub.training.pages.model import measured
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, create_pushed, make_records, store
from tests.factories.evals import start as start_evaluation
from tests.factories.runs import hold_run
from tests.factories.training_runs import (
    adapter_report,
    create_run,
    create_trainable,
    report,
    start,
    training_request,
)

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
        start_evaluation(evaluation)
    store(evaluation, make_records([1.0, 0.0]))
    client.force_login(alice)
    page = client.get("/models/alice/stub").text
    assert "0.500" in page
    assert ("self-reported" in page) is pushed


def test_scores_with_other_arguments_are_not_compared_with_the_base(client: Client) -> None:
    alice = make_user("alice")
    for model, length, reward in (("stub", 4, 0.75), ("base", 4, 0.5), ("base", 6, 0.125)):
        evaluation = create_hosted(alice, env_args={"length": length})
        start_evaluation(evaluation)
        store(evaluation, make_records([reward, reward]))
        Evaluation.objects.filter(pk=evaluation.pk).update(model_name=f"alice/{model}")
    first, second = measured(alice, "alice/stub", "alice/base")
    assert (first.difference, first.settings) == (0.25, "2 examples · env_args length=4")
    assert (second.own, second.difference, second.settings) == (None, None, "2 examples · env_args length=6")


def test_a_deployment_that_was_deleted_is_ending_until_its_run_has(client: Client) -> None:
    alice = make_user("alice")
    deployment = ensure_deployment(model=create_trainable(alice.owner), user=alice)
    hold_run(Run.objects.get(pk=deployment.run_id))
    client.force_login(alice)
    assert ">served<" in client.get("/models/alice/base").text
    delete_deployment(user=alice, deployment=deployment)
    page = client.get("/models/alice/base").text
    assert ">ending<" in page
    assert "requests in progress have 5 minutes to finish" in page


def test_members_see_how_much_a_model_was_called_and_why_it_is_not_served(client: Client) -> None:
    alice = make_user("alice")
    deployment = ensure_deployment(model=create_trainable(alice.owner, public=True), user=alice)
    note_usage(deployment_id=deployment.pk, prompt_tokens=1500, completion_tokens=20, now=timezone.now())
    run = Run.objects.get(pk=deployment.run_id)
    hold_run(run)
    failure = Failure(kind=FailureKind.INFRASTRUCTURE, code="broken", message="no room on the GPU")
    end_attempt(run=run, to=RunState.FAILED, failure=failure, now=timezone.now())
    stranger = client.get("/models/alice/base").text
    client.force_login(alice)
    page = client.get("/models/alice/base").text
    assert "1 request: 1\u202f500 tokens in, 20 out" in page
    assert "No room on the GPU" in page
    assert "1 request" not in stranger
    assert "No room" not in stranger


def test_a_trained_model_and_its_base_are_measured_as_it_was_trained(client: Client) -> None:
    alice = make_user("alice")
    training = create_run(alice, training_request("args = { length = 4 }\n[sampling]\nmax_tokens = 8"))
    start(training)
    report(training, adapter_report(final=True))
    client.force_login(alice)
    page = unescape(client.get("/models/alice/sort").text)
    for model, times in (("alice/sort", 2), ("alice/base", 1)):
        assert page.count(f"""hub eval run alice/tiny-env -n 50 -r 4 -m {model} -a '{{"length": 4}}' -t 8""") == times
    assert page.count('href="/environments/alice/tiny-env/evaluate?model=alice/sort"') == 2
    assert 'value="alice/sort" selected' in client.get("/environments/alice/tiny-env/evaluate?model=alice/sort").text
