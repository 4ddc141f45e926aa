"""Whose trace a run belongs to: that of the caller with a token who starts it, never that of a stranger's header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from envhub.client.telemetry.json_logs import JsonLines
from envhub.protocol.runs import RunKind

from hub.accounts.authentication import user_of_token
from hub.accounts.models import User
from hub.core.requests.observed import Observed
from hub.runs.authentication import grant_of_run_token
from hub.runs.models import Run
from hub.runs.services import create_run
from tests.factories.accounts import make_token, make_user
from tests.factories.runs import hold_run, make_run
from tests.fakes.otlp_receiver import OtlpReceiver
from tests.hub.core.asgi import answer_of
from tests.hub.core.log_lines import line_now

pytestmark = pytest.mark.django_db(transaction=True)
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@pytest.fixture
def user() -> User:
    return make_user()


def request(work: Callable[[], Any], headers: dict[str, str]) -> Any:
    """What `work` gives inside of a request."""
    found: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        found.append(await sync_to_async(work, thread_sensitive=False)())
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    answer_of(Observed(application), headers)
    return found[0]


def start(user: User) -> Run:
    return create_run(kind=RunKind.EVAL, owner=user.owner, created_by=user, subject="x", subject_url="/")


def started_by_token(user: User) -> Callable[[], Run]:
    secret = make_token(user)

    def work() -> Run:
        user_of_token(secret)
        return start(user)

    return work


def test_a_run_goes_on_with_the_trace_of_a_caller_who_shows_a_token(user: User) -> None:
    run = request(started_by_token(user), HEADER)
    assert (run.trace_id, run.traceparent) == (TRACE, HEADER["traceparent"])


@pytest.mark.parametrize("header", ["", "00-nonsense", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01\x00"])
def test_a_header_that_is_none_is_as_good_as_none(user: User, header: str) -> None:
    run = request(started_by_token(user), {"traceparent": header})
    assert run.trace_id not in {None, TRACE, "0" * 32}


def test_a_strangers_header_is_not_believed(user: User) -> None:
    assert request(lambda: start(user), HEADER).trace_id not in {None, TRACE}


def test_a_workers_request_does_not_choose_the_trace_of_a_new_run(user: User) -> None:
    secret = hold_run(make_run(owner=user.owner, traceparent=HEADER["traceparent"]))

    def work() -> Run:
        grant_of_run_token(secret)
        return start(user)

    assert request(work, HEADER).trace_id not in {None, TRACE}


def test_what_the_hub_starts_by_itself_has_a_trace_of_its_own(user: User) -> None:
    one, two = start(user), start(user)
    assert one.trace_id
    assert two.trace_id
    assert one.trace_id != two.trace_id


def test_lines_of_a_request_name_the_trace_that_its_caller_may_name(user: User) -> None:
    secret = make_token(user)

    def work() -> str:
        user_of_token(secret)
        return line_now(JsonLines())["trace_id"]

    assert request(work, HEADER) == TRACE
    assert request(lambda: line_now(JsonLines())["trace_id"], HEADER) != TRACE


def test_lines_of_a_workers_request_name_its_runs_trace(user: User) -> None:
    secret = hold_run(make_run(owner=user.owner, traceparent=HEADER["traceparent"]))

    def work() -> str:
        grant_of_run_token(secret)
        return line_now(JsonLines())["trace_id"]

    assert request(work, {"traceparent": f"00-{'a' * 32}-{SPAN}-01"}) == TRACE


def test_a_request_that_starts_a_run_is_the_parent_of_it(user: User, tracing: OtlpReceiver) -> None:
    run = request(started_by_token(user), HEADER)
    span = tracing.wait_for("GET none")
    assert (span.trace_id, span.parent_id) == (TRACE, SPAN)
    assert run.traceparent == f"00-{TRACE}-{span.span_id}-01"
    assert span.attributes["http.response.status_code"] == 201


def test_a_browser_that_starts_a_run_begins_a_trace(user: User, tracing: OtlpReceiver) -> None:
    run = request(lambda: start(user), HEADER)
    span = tracing.wait_for("GET none")
    assert (span.trace_id, span.parent_id) == (run.trace_id, "")


def test_a_worker_adds_nothing_to_the_traces_of_other_runs(user: User, tracing: OtlpReceiver) -> None:
    secret = hold_run(make_run(owner=user.owner, traceparent=f"00-{'a' * 32}-{SPAN}-01"))
    request(lambda: grant_of_run_token(secret), HEADER)
    request(lambda: start(user), {})
    tracing.wait_for("GET none")
    assert [span.trace_id for span in tracing.spans if span.trace_id == TRACE] == []


def test_requests_that_nobody_traces_leave_no_span(user: User, tracing: OtlpReceiver) -> None:
    secret = make_token(user)
    request(lambda: user_of_token(secret), {})
    request(lambda: start(user), {})
    tracing.wait_for("GET none")
    assert len(tracing.spans) == 1
