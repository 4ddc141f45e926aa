"""What calls of a rollout share is stored once, and found again, whatever was written there."""

from __future__ import annotations

from typing import Any

import pytest
from envhub.packaging.asked import digest
from envhub.packaging.calls import Calls, shortened
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.rollouts import Continued, Turn

TOOLS = [{"type": "function", "function": {"name": "look"}}]
SYSTEM = "You play a game. " * 50


def said(*texts: str) -> list[JsonObject]:
    return [{"role": "user", "content": text} for text in texts]


def turns(*requests: JsonObject) -> list[Turn]:
    return [
        Turn(index=index, protocol="chat", model="m", request=request, response={})
        for index, request in enumerate(requests)
    ]


@pytest.mark.parametrize(
    "requests",
    [
        [{"messages": said("a")}, {"messages": said("a", "b")}, {"messages": said("a", "b", "c")}],
        [{"messages": said("a"), "tools": TOOLS, "temperature": 1.0}, {"messages": said("a", "b"), "tools": TOOLS}],
        [{"messages": said("a"), "tools": TOOLS}, {"messages": said("b"), "tools": TOOLS}, {"messages": said("b")}],
        [{"messages": said("a", "b")}, {"messages": said("a")}, {"messages": said("a", "b", "c")}],  # cut, and gone on
        [{"messages": said("a")}, {"messages": said("x")}, {"messages": said("a", "b")}, {"messages": said("x", "y")}],
        [{"input": said("a"), "instructions": SYSTEM}, {"input": said("a", "b"), "instructions": SYSTEM}],
        [{"system": SYSTEM, "messages": said("a")}, {"system": SYSTEM + "!", "messages": said("a", "b")}],
        [{"prompt": "a"}, {"prompt": "a b"}, {"messages": []}, {}],
        [{"messages": said("a")}, {"input": said("a")}, {"messages": "no list"}],
    ],
)
def test_every_request_is_found_whole_again(requests: list[JsonObject]) -> None:
    stored = shortened(turns(*requests))
    calls, known = Calls(stored), dict[int, str]()
    whole = [calls.request(turn) for turn in stored]
    assert whole == requests
    assert [digest(one, known) for one in whole] == [digest(one) for one in requests]


def test_a_long_conversation_takes_room_by_its_length() -> None:
    talk = said(*(f"move {number} " + "x" * 200 for number in range(400)))
    requests = [{"messages": talk[: number + 1], "tools": TOOLS * 50} for number in range(400)]
    stored = shortened(turns(*requests))
    longest = len(turns(requests[-1])[0].model_dump_json())
    assert sum(len(turn.model_dump_json()) for turn in stored) < 2 * longest + 400 * 400
    assert Calls(stored).request(stored[-1]) == requests[-1]


def test_conversations_that_take_turns_are_each_gone_on_from() -> None:
    one, other = said(*"abcdefgh"), said(*"ABCDEFGH")
    requests = [{"messages": talk[: number + 1]} for number in range(8) for talk in (one, other)]
    stored = shortened(turns(*requests))
    assert all(len(turn.request["messages"]) == 1 for turn in stored)
    assert [Calls(stored).request(turn) for turn in stored] == requests


@pytest.mark.parametrize(
    "continued",
    [
        {"turn": 1, "items": 3},  # itself
        {"turn": 7, "items": 3},
        {"turn": -1, "items": -3},
        {"turn": 0, "items": 10**12, "same": ["tools", "nothing"]},
    ],
)
def test_what_a_stranger_wrote_breaks_nothing(continued: dict[str, Any]) -> None:
    first, second = turns({"messages": said("a")}, {"messages": said("b")})
    second = second.model_copy(update={"continues": Continued.model_validate(continued)})
    found = Calls([first, second]).request(second)["messages"]
    assert found in (said("b"), said("a", "b"))


def test_turns_that_lead_to_each_other_end() -> None:
    first, second = turns({"messages": said("a")}, {"messages": said("b")})
    first, second = (
        turn.model_copy(update={"continues": Continued(turn=1 - turn.index, items=5)}) for turn in (first, second)
    )
    assert Calls([first, second]).request(second)["messages"] == said("b")
    assert Calls([first, second]).request(first)["messages"] == said("a")
