"""The report of a comparison names the examples that flipped."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.evals.models import Evaluation
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_records, start, store


@pytest.mark.django_db
def test_flipped_examples_have_their_prompts_however_many_come_before_them(client: Client) -> None:
    ada = make_user("ada")
    client.force_login(ada)
    found: list[Evaluation] = []
    for fixed, broken in ((0.0, 1.0), (1.0, 0.0)):
        evaluation = create_hosted(ada, num_examples=61)
        start(evaluation)
        store(evaluation, make_records(*[[fixed]] * 60, [broken]))
        found.append(evaluation)
    reply = client.get(f"/evaluations/compare/report?a={found[0].pk}&b={found[1].pk}")
    assert [asked for _, asked in reply.context["broken_rows"]] == ["question 60"]
    assert [asked for _, asked in reply.context["fixed_rows"]][:2] == ["question 0", "question 1"]
