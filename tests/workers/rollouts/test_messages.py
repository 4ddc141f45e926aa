"""Between Anthropic's Messages and chat completions nothing gets lost that the other side can say."""

from __future__ import annotations

from typing import Any

from workers.rollouts.interceptor.answers import read_message
from workers.rollouts.interceptor.messages import answer_from_chat, answer_to_chat, request_from_chat, request_to_chat

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
TOOL = {"type": "function", "function": {"name": "look"}}


def asked(**settings: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, **settings}


def test_a_picture_in_a_tool_result_follows_it_as_the_users() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "seen"}, PICTURE]}
    chat = request_to_chat(asked(messages=[{"role": "user", "content": [result]}]))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert chat["messages"] == [
        {"role": "tool", "tool_call_id": "t", "content": "seen"},
        {"role": "user", "content": [image]},
    ]


def test_top_k_goes_both_ways_except_where_it_limits_nothing() -> None:
    assert request_to_chat(asked(top_k=5))["top_k"] == 5
    assert request_from_chat(asked(top_k=5))["top_k"] == 5
    assert "top_k" not in request_from_chat(asked(top_k=-1))


def test_one_tool_call_at_a_time_goes_both_ways() -> None:
    choice = {"type": "any", "disable_parallel_tool_use": True}
    chat = request_to_chat(asked(tools=[{"name": "look"}], tool_choice=choice))
    assert (chat["tool_choice"], chat["parallel_tool_calls"]) == ("required", False)
    assert request_from_chat(asked(tools=[TOOL], tool_choice="required", parallel_tool_calls=False))["tool_choice"] == (
        choice
    )
    assert request_from_chat(asked(tools=[TOOL], parallel_tool_calls=False))["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }


def test_the_prompts_cached_tokens_are_tokens_of_the_prompt() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 40, "cache_creation_input_tokens": None, "output_tokens": 2}
    message = {"content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": usage}
    assert read_message(message).usage.prompt_tokens == 43
    assert answer_to_chat(message)["usage"] == {"prompt_tokens": 43, "completion_tokens": 2, "total_tokens": 45}


def test_words_of_blanks_alone_which_anthropic_refuses_are_not_sent() -> None:
    words = [("system", " "), ("user", "hi"), ("assistant", ""), ("user", "\n"), ("assistant", None)]
    request = request_from_chat(asked(messages=[{"role": role, "content": content} for role, content in words]))
    assert "system" not in request
    texts = [block["text"] for message in request["messages"] for block in message["content"]]
    assert texts == ["hi", "(empty)", "(empty)", "(empty)"]


def test_a_call_without_arguments_has_none_however_the_endpoint_writes_that() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "look", "arguments": text}} for text in ("", "{}")]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    blocks = answer_from_chat({"choices": [{"message": message}]})["content"]
    assert [block["input"] for block in blocks] == [{}, {}]
    (sent,) = request_from_chat(asked(messages=[message]))["messages"]
    assert [block["input"] for block in sent["content"]] == [{}, {}]
