"""Rollouts for reading: messages of every shape, calls with shaded tokens."""

from __future__ import annotations

import json

import pytest
from envhub.packaging.calls import Calls, shortened
from envhub.packaging.conversation import LONGEST, conversation
from envhub.protocol.base import Json
from envhub.protocol.evals.rollouts import RolloutRecord, TokenData, Turn

from hub.evals.reading.model_calls import MOST_TOKENS, ModelCall, model_call, summaries
from tests.factories.evals import make_record


def record(prompt: Json, completion: Json, **changes: Json) -> RolloutRecord:
    return make_record(prompt=prompt, completion=completion, **changes)


def turn(**changes: Json) -> Turn:
    fields: dict[str, Json] = {"index": 0, "protocol": "chat", "model": "m", "request": {}, "response": {}}
    return Turn.model_validate(fields | changes)


def _call(one: Turn) -> ModelCall:
    return model_call(one, Calls([one]))


def test_a_call_is_shown_with_all_that_it_asked() -> None:
    asked = [{"messages": [{"role": "user", "content": text} for text in texts]} for texts in ("a", "ab")]
    first, second = shortened([turn(index=index, request=request) for index, request in enumerate(asked)])
    assert json.loads(model_call(second, Calls([first, second])).request) == asked[1]


def test_a_completion_environments_strings_are_a_question_and_an_answer() -> None:
    messages = conversation(record("Once upon", " a time"))
    assert [(m.role, m.text, m.sampled) for m in messages] == [
        ("user", "Once upon", False),
        ("assistant", " a time", True),
    ]


@pytest.mark.parametrize("as_text", [False, True])
def test_tool_calls_are_pretty_whether_stored_as_objects_or_as_text(as_text: bool) -> None:
    call: Json = {"id": "c1", "function": {"name": "add", "arguments": '{"a":1}'}}
    if as_text:
        call = '{"id": "c1", "function": {"name": "add", "arguments": "{\\"a\\":1}"}}'
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    told = {"role": "tool", "tool_call_id": "c1", "content": "2"}
    first, second = conversation(record([], [asked, told]))
    assert (first.calls[0].name, first.calls[0].arguments, first.calls[0].id) == ("add", '{\n  "a": 1\n}', "c1")
    assert (second.kind, second.answers, second.text, second.sampled) == ("tool", "c1", "2", False)


def test_parts_of_a_message_are_joined_and_pictures_named() -> None:
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    (message,) = conversation(record([{"role": "user", "content": content}], None))
    assert message.text.startswith("look\n")
    assert "image_url" in message.text


@pytest.mark.parametrize(
    "hostile", [7, {"a": [None]}, [[1], None], [{"role": 5, "content": {"x": 1}, "tool_calls": 3}]]
)
def test_any_shape_can_be_shown(hostile: Json) -> None:
    assert conversation(record(hostile, hostile))


def test_a_record_without_messages_shows_its_last_call() -> None:
    asked = {"messages": [{"role": "user", "content": "hi"}]}
    answered = {"choices": [{"message": {"role": "assistant", "content": "hello"}}]}
    messages = conversation(record(None, None, turns=(turn(request=asked, response=answered),)))
    assert [message.text for message in messages] == ["hi", "hello"]


def test_an_endless_text_is_cut() -> None:
    (message,) = conversation(record(None, "x" * (LONGEST + 5)))
    assert len(message.text) < LONGEST + 100
    assert "5 more characters" in message.text


def test_tokens_are_shaded_by_their_probability() -> None:
    tokens = TokenData(prompt_ids=(1,), completion_ids=(7, 8, 9), logprobs=(-0.01, -1.0, -4.0))
    call = _call(turn(tokens=tokens, token_texts=("a", " b", "c")))
    assert [(t.text, t.shade) for t in call.tokens] == [("a", "p0"), (" b", "p2"), ("c", "p4")]
    assert call.tokens[2].title == "1.8\u202f%, logprob \u22124.000, id 9"
    (summary,) = summaries([turn(tokens=tokens)], {0: 2}, Calls([]), whole=0)
    assert (summary.mean_logprob, summary.commands) == (pytest.approx(-5.01 / 3), 2)


def test_without_texts_tokens_are_shown_by_id() -> None:
    tokens = TokenData(prompt_ids=(), completion_ids=(7,), logprobs=(-0.01,))
    call = _call(turn(tokens=tokens))
    assert (call.tokens[0].text, call.has_texts) == ("#7 ", False)


def test_a_long_answers_last_tokens_are_counted_not_shown() -> None:
    count = MOST_TOKENS + 3
    tokens = TokenData(completion_ids=tuple(range(count)), logprobs=(0.0,) * count)
    call = _call(turn(tokens=tokens))
    assert (len(call.tokens), call.left_out) == (MOST_TOKENS, 3)
