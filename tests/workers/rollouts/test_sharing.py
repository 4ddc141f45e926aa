"""Calls that repeat a conversation take room for what is new in them, and few bytes for their tokens."""

from __future__ import annotations

import json

from envhub.protocol.base import JsonObject

from workers.rollouts.interceptor.answers import _KNOWN, VOCABULARY, Answer, read_completion
from workers.rollouts.interceptor.recorder import Caps, Recorder

URL = "data:image/png;base64," + "A" * 10_000
PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]}


def test_a_conversation_with_pictures_is_kept_and_counted_once() -> None:
    recorder, answer = Recorder("1.0", Caps()), Answer(body={})
    for number in range(1, 51):
        request: JsonObject = {"model": "m", "messages": [dict(PICTURE, n=place) for place in range(number)]}
        recorder.record("chat", "m", request, answer, shown={}, began=0.0, size=len(json.dumps(request)))
    first, last = recorder.turns[0].request["messages"], recorder.turns[-1].request["messages"]
    assert (len(last), last[0] is first[0]) == (50, True)
    assert 500_000 < recorder.size < 600_000


def test_a_conversation_that_is_rewritten_takes_room_again() -> None:
    recorder, answer = Recorder("1.0", Caps()), Answer(body={})
    for word in ("one", "two"):
        request: JsonObject = {"messages": [{"role": "user", "content": word * 1000}]}
        recorder.record("chat", "m", request, answer, shown={}, began=0.0, size=3050)
    assert 2 * 3050 < recorder.size < 2 * 3500


def test_many_small_values_count_for_the_memory_that_they_take_and_once() -> None:
    recorder, answer = Recorder("1.0", Caps()), Answer(body={})
    for _ in range(2):
        request: JsonObject = {"messages": [{"role": "user", "content": [[]] * 10_000}], "tools": [[]] * 10_000}
        recorder.record("chat", "m", request, answer, shown={}, began=0.0, size=len(json.dumps(request)))
    assert 20_000 * 64 < recorder.size < 20_000 * 72


def test_token_ids_are_numbers_that_are_kept_once() -> None:
    text = json.dumps({"choices": [{"text": "", "prompt_token_ids": [70_001, 9, 10**7], "token_ids": [70_001]}]})
    first, second = (read_completion(json.loads(text)).tokens for _ in range(2))
    assert first is not None
    assert second is not None
    assert first == second
    assert first.prompt_ids[0] is second.prompt_ids[0] is second.completion_ids[0]
    assert max(_KNOWN) < VOCABULARY
