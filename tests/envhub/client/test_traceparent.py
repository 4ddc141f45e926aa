"""A client hands its caller's trace on to the hub, and to nobody else."""

from __future__ import annotations

import httpx
from envhub.client import HubClient
from envhub.protocol.base import Response

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def sent_by(traceparent: str, *calls: tuple[str, str]) -> list[str | None]:
    """The header of each call."""
    sent: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("traceparent"))
        return httpx.Response(200, json={})

    with HubClient("http://hub", "hub_x", httpx.MockTransport(answer), traceparent=traceparent) as hub:
        for method, path in calls:
            if method == "GET":
                hub.connection.get(path, Response)
            elif method == "POST":
                hub.connection.post(path, None, Response)
            else:
                hub.connection.put_bytes(path, lambda: iter([b"x"]), {})
    return sent


def test_calls_carry_it() -> None:
    assert sent_by(TRACEPARENT, ("GET", "/me"), ("POST", "/evaluations"), ("POST", "/evaluations")) == [TRACEPARENT] * 3


def test_without_one_the_hub_begins_the_trace() -> None:
    assert sent_by("", ("GET", "/me"), ("POST", "/evaluations")) == [None, None]


def test_of_what_is_asked_again_and_again_the_first_call_carries_it() -> None:
    assert sent_by(TRACEPARENT, ("GET", "/runs/1"), ("GET", "/runs/1"), ("GET", "/runs/2")) == [
        TRACEPARENT,
        None,
        TRACEPARENT,
    ]


def test_an_object_store_does_not_learn_it() -> None:
    assert sent_by(TRACEPARENT, ("PUT", "http://s3.example/bucket/key?signature=x")) == [None]
