"""Rollouts with a high reward and an odd shape: the rules, and the page of an evaluation."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.evals.rollouts import RolloutRecord, Usage

from hub.evals.models import Evaluation
from hub.evals.reading import odd_rollouts
from hub.evals.reading.odd_rollouts import odd_page
from hub.evals.reading.odd_shapes import Shape, reasons, repeated, usual_of
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_record, start, store

USUAL = [Shape(1.0, 100, 3, {"tool_calls": 2.0})] * 3 + [Shape(0.0, 100, 3, {"tool_calls": 1.0})]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(1.0, 90, 3, {"tool_calls": 1.0}), ""),
        (Shape(1.0, 25, 3, {"tool_calls": 1.0}), "very short: 25 tokens, where 100 are usual"),
        (Shape(0.0, 5, 3, {"tool_calls": 0.0}), ""),  # no high reward
        (Shape(1.0, 90, 1, {"tool_calls": 0.0}), "tool_calls is 0, above it for most"),
        (Shape(1.0, 90, 3, {}, "the answer is " * 10), "its end repeats itself: 89\u202f% of it was there before"),
    ],
)
def test_a_high_reward_of_an_odd_shape_has_its_reason(shape: Shape, words: str) -> None:
    usual = usual_of(USUAL)
    assert usual is not None
    assert "; ".join(reasons(shape, usual)) == words


def test_without_a_metric_of_tools_turns_stand_for_them() -> None:
    usual = usual_of([Shape(1.0, 100, 4, {})] * 3)
    assert usual is not None
    assert reasons(Shape(1.0, 100, 1, {}), usual) == ["a single turn, where 4 are usual"]


def test_a_short_text_and_one_without_spaces() -> None:
    assert repeated("yes yes yes") == 0.0
    assert repeated("ab" * 40) > 0.9
    assert repeated("the quick brown fox jumps over the lazy dog and then it goes home") == 0.0


def _record(example: int, reward: float, tokens: int) -> RolloutRecord:
    return make_record(example, 0, reward, usage=Usage(prompt_tokens=2, completion_tokens=tokens))


@pytest.fixture
def evaluation(db: None) -> Evaluation:
    found = create_hosted(make_user("ada"), num_examples=30)
    start(found)
    usual = [_record(example, float(example % 4 != 0), 100) for example in range(20)]
    store(found, [*usual, *[_record(example, 1.0, 10) for example in range(20, 23)], _record(23, 0.0, 10)])
    return found


def test_a_page_looks_at_the_best_alone_and_goes_on(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = odd_page(evaluation, "")
    assert sorted(one.row.example for one in whole.rows) == [20, 21, 22]
    assert (whole.looked_at, whole.cursor) == (18, None)
    monkeypatch.setattr(odd_rollouts, "MOST_SHOWN", 2)
    first = odd_page(evaluation, "")
    assert first.cursor is not None
    rest = odd_page(evaluation, first.cursor)
    assert sorted(one.row.example for one in (*first.rows, *rest.rows)) == [20, 21, 22]


def test_the_tab_says_why(evaluation: Evaluation) -> None:
    client = Client()
    client.force_login(evaluation.created_by)
    page = client.get(f"/evaluations/{evaluation.pk}?show=odd")
    assert "very short: 10 tokens, where 100 are usual" in page.content.decode()
    assert client.get(f"/evaluations/{evaluation.pk}?show=odd&cursor=x").status_code == 422
