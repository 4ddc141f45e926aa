"""Whose fault an exception is, by its chain."""

from __future__ import annotations

from typing import Any

import pytest
from envhub.runner.failures import (
    ENVIRONMENT,
    VERIFIER,
    BadReward,
    DeadlineExceeded,
    Stalled,
    classify,
    of_provider_text,
)


def library_error(name: str, module: str = "verifiers.errors", **fields: Any) -> Exception:
    """An exception of a library that is not installed here."""
    kind = type(name, (Exception,), {"__module__": module})
    error: Exception = kind("it failed")
    for key, value in fields.items():
        setattr(error, key, value)
    return error


def caused(outer: Exception, inner: Exception) -> Exception:
    try:
        raise outer from inner
    except Exception as error:  # noqa: BLE001 - to get a chained exception
        return error


@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        (library_error("APIStatusError", "openai", status_code=400, body={"type": "invalid_request_error"}), "policy"),
        (library_error("APIStatusError", "openai", status_code=503, body={}), "infrastructure"),
        (library_error("RateLimitError", "openai", status_code=429, body=None), "infrastructure"),
        (library_error("APIConnectionError", "openai"), "infrastructure"),
        (
            library_error("APIStatusError", "openai", status_code=502, body={"type": "hub_infrastructure"}),
            "infrastructure",
        ),
        (library_error("APIStatusError", "openai", status_code=403, body={"error": {"type": "hub_limit"}}), "limit"),
        (library_error("APIStatusError", "openai", status_code=502, body={"type": "hub_judge"}), "judge"),
        (library_error("EmptyModelResponseError"), "policy"),
        (library_error("SandboxError"), "infrastructure"),
        (KeyError("no such key"), "environment"),
        (library_error("HTTPError", "httpx"), "environment"),
    ],
)
def test_the_cause_inside_a_library_error_decides(inner: Exception, kind: str) -> None:
    assert classify(caused(library_error("ModelError"), inner), ENVIRONMENT).kind == kind


def test_a_model_client_that_fails_inside_a_reward_is_the_judge() -> None:
    error = caused(RuntimeError("judge"), library_error("RateLimitError", "openai", status_code=429))
    assert classify(error, VERIFIER).kind == "judge"


def test_deadlines_are_limits_and_bad_rewards_the_verifiers() -> None:
    assert classify(DeadlineExceeded("60 s"), ENVIRONMENT).kind == "limit"
    assert classify(BadReward("nan"), VERIFIER).kind == "verifier"


def test_a_stall_is_not_caught_by_except_exception() -> None:
    assert not issubclass(Stalled, Exception)


def test_the_message_is_the_first_that_says_something() -> None:
    failure = classify(caused(type("ModelError", (Exception,), {})(), ValueError("why")), ENVIRONMENT)
    assert (failure.type, failure.message) == ("ModelError", "why")
    assert "ValueError: why" in failure.traceback


def test_an_exception_that_says_nothing_is_told_by_the_line_that_raised_it() -> None:
    messages: object = "not a list"
    with pytest.raises(AssertionError) as caught:
        assert isinstance(messages, list)
    with pytest.raises(KeyboardInterrupt) as silent:
        raise KeyboardInterrupt
    for error in (caught.value, silent.value):
        error.args = ()
    assert classify(caught.value, ENVIRONMENT).message == "AssertionError: assert isinstance(messages, list)"
    assert classify(silent.value, ENVIRONMENT).message == "KeyboardInterrupt: raise KeyboardInterrupt"
    assert classify(AssertionError(), ENVIRONMENT).message == "AssertionError"


def test_marks_inside_text_are_found() -> None:
    assert of_provider_text('upstream 502: {"error":{"type":"hub_infrastructure"}}') == "infrastructure"
    assert of_provider_text("upstream 400: nothing") is None
