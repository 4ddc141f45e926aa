"""Half of a surrogate pair in a record: it is read all the same, with another character in its place."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from envhub.protocol.evals.rollouts import RolloutRecord

from hub.evals.exports import ExportFormat, export_pieces
from hub.evals.models import Evaluation
from hub.evals.queries import filter_rollouts
from tests.factories.accounts import bearer, make_token
from tests.factories.evals import create_hosted, make_record, store

pytestmark = pytest.mark.django_db
CUT = [{"role": "assistant", "content": "so happy \ud83d"}]


@pytest.fixture
def evaluation() -> Evaluation:
    evaluation = create_hosted()
    store(evaluation, [make_record(0, 0, completion=CUT), make_record(0, 1)])
    return evaluation


def test_the_api_gives_the_rollout(evaluation: Evaluation) -> None:
    path = f"/api/v1/evaluations/{evaluation.pk}/rollouts/0/0"
    answer = Client().get(path, headers=bearer(make_token(evaluation.created_by)))
    record = RolloutRecord.model_validate_json(answer.content)
    assert record.completion == [{"role": "assistant", "content": "so happy ?"}]


def test_its_page_is_shown(client: Client, evaluation: Evaluation) -> None:
    client.force_login(evaluation.created_by)
    answer = client.get(f"/evaluations/{evaluation.pk}/rollouts/0/0")
    assert "so happy ?" in answer.content.decode()


def test_an_export_goes_on_behind_it(evaluation: Evaluation) -> None:
    lines = b"".join(export_pieces(filter_rollouts(evaluation), ExportFormat.JSONL)).splitlines()
    assert [json.loads(line)["rollout"] for line in lines] == [0, 1]
