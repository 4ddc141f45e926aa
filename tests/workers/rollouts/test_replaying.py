"""Which stored answer a model call gets: by what it asks, else the next in order; then the model is asked."""

from __future__ import annotations

from envhub.packaging.asked import digest
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.replays import Replayed, StoredCall

from workers.rollouts.interceptor.replaying import Replaying


def asks(text: str, **sampling: object) -> JsonObject:
    return {"messages": [{"role": "user", "content": text}], **sampling}


def stored(*texts: str, protocol: str = "chat") -> tuple[StoredCall, ...]:
    return tuple(
        StoredCall(protocol=protocol, asked=digest(asks(text)), response={"id": f"to {text}"}) for text in texts
    )


def given(replaying: Replaying, text: str, protocol: str = "chat") -> tuple[str, Replayed] | None:
    found = replaying.answer(protocol, asks(text, temperature=0.3))
    return None if found is None else (found.answer.body["id"], found.how)


def test_every_answer_is_given_once_and_then_the_model_is_asked() -> None:
    replaying = Replaying(stored("a", "b"))
    assert given(replaying, "a") == ("to a", Replayed.SAME)
    assert given(replaying, "b") == ("to b", Replayed.SAME)
    assert given(replaying, "a") is None


def test_calls_side_by_side_get_their_own_answers_in_any_order() -> None:
    replaying = Replaying(stored("a", "b"))
    assert given(replaying, "b") == ("to b", Replayed.SAME)
    assert given(replaying, "a") == ("to a", Replayed.SAME)


def test_a_call_that_asks_something_else_gets_the_next_answer_and_is_marked() -> None:
    replaying = Replaying(stored("it is 9:00", "b"))
    assert given(replaying, "it is 9:01") == ("to it is 9:00", Replayed.CHANGED)
    assert given(replaying, "b") == ("to b", Replayed.SAME)


def test_an_answer_in_another_protocol_is_of_no_use() -> None:
    assert given(Replaying(stored("a", protocol="responses")), "a") is None
    assert given(Replaying(stored("a")), "a", protocol="tokenize") is None


def test_rollouts_behind_one_client_each_get_their_answers_but_no_other() -> None:
    replaying = Replaying(stored("a"), rollouts=2)
    assert [given(replaying, "a") for _ in range(3)] == [("to a", Replayed.SAME)] * 2 + [None]
    assert given(Replaying(stored("a"), rollouts=2), "c") is None
