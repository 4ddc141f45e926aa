"""An example is known by what it asks, however a release of verifiers writes it down."""

from __future__ import annotations

import pytest
from envhub.packaging.example_content import content_hash
from envhub.protocol.base import Json, JsonObject
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord

QUESTION: list[Json] = [{"role": "system", "content": "one word"}, {"role": "user", "content": "2+2"}]


def _record(prompt: Json = QUESTION, answer: Json = "4", **changes: object) -> RolloutRecord:
    fields = {"example": 0, "rollout": 0, "example_hash": "", "outcome": Outcome.OK, "prompt": prompt}
    return RolloutRecord.model_validate(fields | {"library": {"prompt": prompt, "answer": answer}} | changes)


def _of_task(task: JsonObject) -> RolloutRecord:
    return _record([{"role": "system", "content": "of the harness"}], library={"traces": [{}]}, task=task)


@pytest.mark.parametrize(
    "same",
    [
        _record([{**message, "tool_calls": None, "reasoning_content": None} for message in QUESTION]),  # type: ignore[dict-item, call-overload]
        _record([QUESTION[0], {"role": "user", "content": [{"type": "text", "text": "2+"}, {"text": "2"}]}]),
        _record(library={}, task={"answer": "4", "info": {"seen": 3}}),
        _record(task={"answer": "as it was before the rollout", "prompt": "likewise"}),
        _record(None, library={}, task={"prompt": QUESTION, "answer": "4"}),
        _of_task({"idx": 0, "system_prompt": "one word", "prompt": "2+2", "answer": "4", "skills": []}),
        _of_task({"prompt": QUESTION, "answer": "4"}),
    ],
)
def test_one_example_has_one_hash(same: RolloutRecord) -> None:
    assert content_hash(same) == content_hash(_record())


def test_a_completions_prompt_is_the_same_as_text_and_as_a_message() -> None:
    assert content_hash(_record("once")) == content_hash(_record([{"role": "text", "content": "once"}]))


def test_no_answer_is_an_empty_one() -> None:
    assert content_hash(_record(answer=None)) == content_hash(_record(answer=""))


@pytest.mark.parametrize(
    "other",
    [
        _record(answer="5"),
        _record(answer=["4", 4]),
        _record(QUESTION[1:]),
        _record([QUESTION[0], {"role": "assistant", "content": "2+2"}]),
        _record([*QUESTION, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]),
        _of_task({"prompt": "2+2", "answer": "4"}),
    ],
)
def test_what_asks_otherwise_is_another_example(other: RolloutRecord) -> None:
    assert content_hash(other) not in ("", content_hash(_record()))


@pytest.mark.parametrize(
    "silent",
    [_record(None, library={}), _record([]), _record([{"role": "user"}]), _record(outcome=Outcome.FAILED)],
)
def test_what_does_not_tell_its_question_has_none(silent: RolloutRecord) -> None:
    assert content_hash(silent) == ""


def test_text_that_no_file_holds_is_hashed_as_files_hold_it() -> None:
    assert content_hash(_record("a\x00\ud800")) == content_hash(_record("a?"))
