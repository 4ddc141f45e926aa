"""The SDK's client against the real hub, in-process: models and evaluations from start to export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from envhub.client.blobs import LocalBlob
from envhub.client.hub import HubClient
from envhub.errors import Conflict, Invalid, NotFound
from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import positions, read_segment, write_segment
from envhub.protocol.evals.annotations import RolloutQuery, SavedViewRequest
from envhub.protocol.evals.evaluations import EvaluationPush, SegmentRequest
from envhub.protocol.runs import RunState

from hub.accounts.models import User
from tests.factories.accounts import make_token, make_user
from tests.factories.catalog import endpoint_request
from tests.factories.evals import make_config, make_records
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db
RECORDS = make_records([1, 0], [0.5, 1])


@pytest.fixture
def alice() -> User:
    user = make_user("alice")
    create_ready_version(user)
    return user


@pytest.fixture
def hub(alice: User) -> Iterator[HubClient]:
    signals = (request_started, request_finished)
    for signal in signals:  # as Django's own test client does: the test's transaction lives on this connection
        signal.disconnect(close_old_connections)
    transport = httpx.WSGITransport(get_wsgi_application())
    with HubClient("http://127.0.0.1:8000", make_token(alice), transport=transport) as client:
        yield client
    for signal in signals:
        signal.connect(close_old_connections)


def _push(hub: HubClient) -> str:
    config = make_config("alice/tiny-env", "gpt-x")
    evaluation = hub.evaluations.push(
        EvaluationPush(
            environment="alice/tiny-env", model="gpt-x", fingerprint="a" * 64, config=config, format="results.jsonl"
        )
    )
    if evaluation.state is RunState.RUNNING:
        blob = LocalBlob.of(write_segment(RECORDS))
        hub.blobs.ensure([blob])
        rows = index_rows(RECORDS, positions(write_segment(RECORDS)))
        hub.evaluations.add_segment(evaluation.id, SegmentRequest(sha256=blob.sha256, size=blob.size, rows=rows))
        hub.evaluations.finalize(evaluation.id)
    return evaluation.id


def test_a_model_is_put_and_found(hub: HubClient) -> None:
    saved = hub.models.put("alice", endpoint_request("gpt-4.1"))
    assert [model.name for model in hub.models.list()] == ["gpt-4.1"]
    assert hub.models.get("alice/gpt-4.1") == saved
    hub.models.delete("alice/gpt-4.1")
    with pytest.raises(NotFound):
        hub.models.get("alice/gpt-4.1")


def test_an_evaluation_is_created_and_listed(hub: HubClient) -> None:
    hub.models.put("alice", endpoint_request())
    created = hub.evaluations.create(make_config("alice/tiny-env", "alice/stub"))
    assert hub.evaluations.get(created.id) == created
    assert [item.id for item in hub.evaluations.list(environment="alice/tiny-env")] == [created.id]
    with pytest.raises(Conflict):
        hub.evaluations.delete(created.id)


def test_a_wrong_configuration_says_where(hub: HubClient) -> None:
    hub.models.put("alice", endpoint_request())
    with pytest.raises(Invalid) as caught:
        hub.evaluations.create(make_config("alice/tiny-env", "alice/stub", num_examples=0))
    assert "num_examples" in caught.value.fields


def test_pushed_results_come_back_as_they_were(hub: HubClient, tmp_path: Path) -> None:
    pushed = _push(hub)
    assert _push(hub) == pushed
    summary = hub.evaluations.get(pushed).summary
    assert (summary.stored, summary.reward and summary.reward.mean) == (4, 0.625)
    assert hub.evaluations.rollout(pushed, 1, 0) == RECORDS[2]
    assert len(list(hub.evaluations.rollouts(pushed, min_reward=0.5, sort="-reward"))) == 3
    assert [segment.rollouts for segment in hub.evaluations.segments(pushed)] == [4]
    exported = hub.evaluations.export(pushed, tmp_path / "e.parquet", min_reward=0.5)
    assert list(read_segment(exported)) == [RECORDS[0], RECORDS[2], RECORDS[3]]
    hub.evaluations.delete(pushed)
    with pytest.raises(NotFound):
        hub.evaluations.get(pushed)


def test_labels_notes_and_views(hub: HubClient) -> None:
    evaluation = _push(hub)
    assert hub.evaluations.label(evaluation, 0, 1, "bug").labels == ("bug",)
    assert [(row.example, row.rollout) for row in hub.evaluations.rollouts(evaluation, label="any")] == [(0, 1)]
    assert [one.name for one in hub.evaluations.labels(evaluation).labels] == ["bug"]
    hub.evaluations.unlabel(evaluation, 0, 1, "bug")
    assert not hub.evaluations.labels(evaluation).labels
    note = hub.evaluations.add_note(evaluation, 0, 1, "look")
    assert [one.text for one in hub.evaluations.notes(evaluation, 0, 1)] == ["look"]
    hub.evaluations.delete_note(evaluation, 0, 1, note.id)
    view = hub.evaluations.save_view(evaluation, SavedViewRequest(name="bugs", query=RolloutQuery(label="bug")))
    assert [one.query for one in hub.evaluations.views(evaluation)] == [{"label": "bug", "sort": "newest"}]
    hub.evaluations.delete_view(evaluation, view.id)
