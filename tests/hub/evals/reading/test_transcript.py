"""Transcripts for reading: folded calls, windows of a bounded size, the strip, the search."""

from __future__ import annotations

import pytest
from envhub.protocol.base import Json, JsonObject

from hub.evals.reading.transcript import SEGMENTS, SHOWN, STRIP_HEIGHT, WINDOW, Transcript, transcript
from tests.factories.evals import make_record


def call(number: int, command: str = "ls") -> JsonObject:
    arguments = f'{{"command": "{command}"}}'
    return {"id": f"c{number}", "function": {"name": "bash", "arguments": arguments}}


def asks(number: int, command: str = "ls") -> JsonObject:
    return {"role": "assistant", "content": None, "tool_calls": [call(number, command)]}


def answers(number: int, text: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def of(*messages: Json) -> Transcript:
    return transcript(make_record(prompt=[{"role": "user", "content": "go"}], completion=list(messages)))


def talk(count: int, text: str = "word") -> Transcript:
    return of(*[{"role": "assistant", "content": f"{text} {number}"} for number in range(1, count)])


def test_a_result_is_folded_into_its_call_and_keeps_its_number() -> None:
    whole = of(asks(1, "pytest -q"), answers(1, "1 failed\nexit code: 1"), {"role": "assistant", "content": "done"})
    assert [turn.number for turn in whole.turns] == [0, 1, 3]
    (folded,) = whole.turns[1].calls
    assert folded.line == "pytest -q"
    assert folded.result is not None
    assert (folded.result.number, folded.result.summary, folded.result.bad) == (2, "exit 1, 2 lines", True)
    assert whole.place_of(2) == 1


def test_calls_of_one_message_find_their_own_results_in_any_order() -> None:
    both = {"role": "assistant", "content": "", "tool_calls": [call(1), call(2)]}
    whole = of(both, answers(2, "two"), answers(1, "one"))
    texts = [folded.result.message.text for folded in whole.turns[1].calls if folded.result]
    assert texts == ["one", "two"]


def test_a_result_of_no_call_is_a_turn_of_its_own() -> None:
    assert [turn.message.kind for turn in of(answers(9, "lost")).turns] == ["user", "tool"]


def test_ids_that_are_used_again_answer_the_newest_call() -> None:
    whole = of(asks(1), answers(1, "first"), asks(1), answers(1, "second"))
    assert [turn.calls[0].result.message.text for turn in whole.turns[1:] if turn.calls[0].result] == [
        "first",
        "second",
    ]


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("ok", False),
        ("returned 5 rows", False),
        ("all tests passed, exit 0", False),
        ("Traceback (most recent call last):\n...", True),
        ("ValueError: no", True),
        ("<returncode>2</returncode>", False),
        ("x\n" * 500 + "returncode: 2", True),
        ("Process exited with code 127", True),
    ],
)
def test_what_looks_like_a_failure_is_marked(text: str, bad: bool) -> None:
    assert of(asks(1), answers(1, text)).turns[1].bad is bad


def test_windows_follow_each_other_until_every_turn_was_shown() -> None:
    whole, seen, place = talk(5 * WINDOW + 3), [], 0
    while place < len(whole.turns):
        window = whole.window(place)
        assert 0 < len(window.turns) <= WINDOW
        seen += [turn.number for turn in window.turns]
        place = window.stop
    assert seen == list(range(5 * WINDOW + 3))
    assert whole.before(place).stop == place


def test_a_window_is_bounded_by_its_text_and_never_empty() -> None:
    long = talk(30, "x" * 10 * SHOWN)
    assert 1 < len(long.window(1).turns) < 20
    assert len(long.before(20).turns) == len(long.window(1).turns)


def test_the_strip_has_a_bounded_number_of_parts_that_fill_it() -> None:
    strip = talk(7 * SEGMENTS + 5).strip()
    assert len(strip) == SEGMENTS
    assert sum(part.width for part in strip) == pytest.approx(100)
    assert strip[0].number == 0


def test_one_failure_shows_in_a_strip_of_thousands() -> None:
    words = [{"role": "assistant", "content": "word"}] * 3000
    whole = of(*words[:1500], asks(1), answers(1, "exit 1"), *words[1500:])
    (part,) = [part for part in whole.strip() if part.bad]
    assert part.number == 1501
    assert part.bad_height < STRIP_HEIGHT / 2  # not as if all of its turns had failed


def test_search_finds_texts_reasoning_and_arguments_whatever_their_case() -> None:
    thinks = {"role": "assistant", "content": "no", "reasoning_content": "maybe a NEEDLE"}
    whole = of(thinks, asks(1, "grep needle"), answers(1, "the Needle is here"))
    found = whole.search("needle")
    assert [one.number for one in found] == [1, 2, 3]
    assert (found[2].before, found[2].match, found[2].after) == ("the ", "Needle", " is here")
    assert whole.search("needl.") == []
