"""The trace of a run: given with its claim, shared by its parts, kept by its attempts, shown to its owner's members."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.runs import RunKind
from envhub.protocol.traces import TraceContext
from pytest_django import Settings

from hub.evals.models import Evaluation
from hub.evals.services.creating import queue_run, stored_config
from hub.registry.models import Environment
from hub.runs.models import Run
from hub.runs.services import claim_run, create_run, parts
from hub.runs.services.finishing import requeue_run
from hub.runs.services.sweeping import WORKER_LOST
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted
from tests.factories.runs import hold_run, make_run, make_worker
from tests.hub.runs.conftest import Recorder

pytestmark = pytest.mark.django_db
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def traced_evaluation() -> Evaluation:
    evaluation = create_hosted()
    Run.objects.update(traceparent=TRACEPARENT)
    return Evaluation.objects.select_related("run", "owner", "version__environment__owner").get(pk=evaluation.pk)


def test_a_worker_learns_it_with_the_claim(recorder: Recorder) -> None:
    run = make_run(traceparent=TRACEPARENT)
    claim = claim_run(run_id=run.pk, worker=make_worker(), now=timezone.now())
    assert (claim.traceparent, claim.subject, claim.queued_at) == (TRACEPARENT, run.subject, run.created_at)


def test_the_next_attempt_belongs_to_the_same_trace(recorder: Recorder) -> None:
    run = make_run(traceparent=TRACEPARENT)
    hold_run(run)
    requeue_run(run=run, failure=WORKER_LOST, now=timezone.now(), wait=False)
    assert claim_run(run_id=run.pk, worker=make_worker(), now=timezone.now()).traceparent == TRACEPARENT


def test_parts_belong_to_the_trace_of_their_run(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_room_for", lambda run, now: 2)
    run = make_run(traceparent=TRACEPARENT)
    hold_run(run)
    assert parts.add_parts(parent=run, parts=2, now=timezone.now()) == 2
    assert [part.traceparent for part in Run.objects.filter(parent=run)] == [TRACEPARENT] * 2


def test_a_resumed_evaluation_has_a_trace_of_its_own_with_a_link(recorder: Recorder) -> None:
    evaluation = traced_evaluation()
    resumed = queue_run(evaluation, evaluation.created_by, stored_config(evaluation))
    assert resumed.trace_id != TRACE
    assert resumed.led_here == TRACEPARENT


def test_a_run_from_before_there_were_traces_has_none(client: Client) -> None:
    run = make_run()
    client.force_login(run.created_by)
    assert run.trace_id is None
    assert "Trace" not in client.get(f"/runs/{run.pk}").content.decode()


def test_its_page_shows_it(client: Client) -> None:
    run = make_run(traceparent=TRACEPARENT)
    client.force_login(run.created_by)
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert f'<code id="trace">{TRACE}</code>' in page
    assert 'data-copy="#trace"' in page


def test_its_page_leads_to_where_the_operator_shows_traces(client: Client, settings: Settings) -> None:
    settings.HUB = settings.HUB.model_copy(update={"trace_url": "https://tempo.example/trace/{trace_id}?x=1"})
    run = make_run(traceparent=TRACEPARENT)
    client.force_login(run.created_by)
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert f'href="https://tempo.example/trace/{TRACE}?x=1"' in page


def test_the_api_gives_it(client: Client) -> None:
    run = make_run(traceparent=TRACEPARENT)
    view = client.get(f"/api/v1/runs/{run.pk}", headers=bearer(make_token(run.created_by))).json()
    assert (view["trace_id"], view["trace_url"]) == (TRACE, None)


def test_of_a_public_evaluation_members_alone_learn_it(client: Client) -> None:
    evaluation = traced_evaluation()
    Evaluation.objects.update(visibility="public")
    Environment.objects.update(visibility="public")
    url = f"/api/v1/evaluations/{evaluation.pk}"
    seen = [client.get(url, headers=bearer(make_token(who))).json() for who in (evaluation.created_by, make_user())]
    assert [view["trace_id"] for view in seen] == [TRACE, None]
    for who, shown in ((evaluation.created_by, True), (make_user(), False)):
        client.force_login(who)
        assert (TRACE in client.get(f"/evaluations/{evaluation.pk}").content.decode()) is shown


def test_every_run_has_one(recorder: Recorder) -> None:
    user = make_user()
    run = create_run(kind=RunKind.EVAL, owner=user.owner, created_by=user, subject="x", subject_url="/")
    context = TraceContext.of_run(run.traceparent)
    assert context is not None
    assert (len(context.trace_id), context.span_id) == (32, "")
