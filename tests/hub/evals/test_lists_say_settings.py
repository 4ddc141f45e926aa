"""Two evaluations of one model are told apart where they are listed, and one without a score is no plain success."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.evals.measured import in_words
from envhub.protocol.evals.rollouts import RolloutRecord

from hub.evals.models import Evaluation
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_failure, make_record, store

pytestmark = pytest.mark.django_db
PAGES = ("/evaluations", "/environments/ada/tiny-env/evaluations")


def _pages(found: Evaluation, *more: str) -> list[str]:
    Evaluation.objects.filter(pk=found.pk).update(state="succeeded")
    client = Client()
    client.force_login(found.created_by)
    return [client.get(path).content.decode() for path in (*PAGES, *more)]


def test_lists_say_how_it_was_measured() -> None:
    found = create_hosted(make_user("ada"), sampling={"temperature": 0.2}, split="train")
    for page in _pages(found):
        assert "split train · sampling temperature=0.2" in page


def test_what_was_left_at_its_default_is_not_told() -> None:
    assert in_words(create_hosted().config) == ()


def test_a_replay_says_so_in_lists() -> None:
    ada = make_user("ada")
    before = create_hosted(ada)
    store(before, [make_record(completion=[{"role": "assistant", "content": "a"}])])
    replay = {"evaluation": str(before.pk), "example": 0, "rollout": 0, "calls": 1}
    for page in _pages(create_hosted(ada, replay=replay)):
        assert "replay of example 0 from call 1" in page


@pytest.mark.parametrize(("record", "told"), [(make_failure(), True), (make_record(), False)])
def test_a_success_without_a_score_says_so(record: RolloutRecord, told: bool) -> None:
    found = create_hosted(make_user("ada"))
    store(found, [record])
    assert all(("nothing scored" in page) is told for page in _pages(found, f"/evaluations/{found.pk}"))
