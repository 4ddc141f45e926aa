"""The spans of model calls: below their rollout whatever the box sends, without a word of what was said."""

from __future__ import annotations

from envhub.client.telemetry.tracing import begin_span

from tests.fakes.otlp_receiver import OtlpReceiver
from tests.fakes.policy_endpoint import Answer, Fault, PolicyEndpoint
from tests.workers.rollouts.conftest import HELLO, Box, OpenBox, quick_endpoint
from workers.broker.interface import ROLLOUT_HEADER
from workers.rollouts.interceptor.recorder import Recorder
from workers.rollouts.interceptor.server import Interceptor

CHAT = "/r/g.0/v1/chat/completions"
FORGED = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "x=y", "baggage": "x=y"}


def traced_rollout(box: Box) -> Recorder:
    recorder = box.interceptor.open("g.0", key="g.0")
    recorder.span = begin_span("rollout")
    return recorder


async def test_a_call_is_told_by_the_conventions_for_generative_ai(box: Box, tracing: OtlpReceiver) -> None:
    traced_rollout(box)
    await box.post(CHAT, HELLO | {"temperature": 0.5, "max_tokens": 7, "top_p": True})
    told = tracing.wait_for("chat alice/stub").attributes
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "alice/stub",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 7,
        "gen_ai.usage.output_tokens": 6,
        "gen_ai.response.finish_reasons": ["stop"],
        "http.response.status_code": 200,
        "envhub.route": "policy",
        "envhub.turn": 0,
    }
    assert expected.items() <= told.items()
    assert "gen_ai.request.top_p" not in told


async def test_a_box_chooses_neither_trace_nor_parent(box: Box, tracing: OtlpReceiver) -> None:
    rollout = traced_rollout(box).span
    async with box.http.post(f"http://box{CHAT}", json=HELLO, headers=FORGED) as response:
        assert response.status == 200
    call = tracing.wait_for("chat alice/stub")
    assert rollout.context is not None
    assert (call.trace_id, call.parent_id) == (rollout.context.trace_id, rollout.context.span_id)


async def test_an_endpoint_learns_no_trace(box: Box, stub: PolicyEndpoint, tracing: OtlpReceiver) -> None:
    traced_rollout(box)
    async with box.http.post(f"http://box{CHAT}", json=HELLO, headers=FORGED) as response:
        assert response.status == 200
    (seen,) = stub.requests
    assert not {"traceparent", "tracestate", "baggage"} & {name.lower() for name in seen.headers}


async def test_an_endpoint_that_the_operator_names_learns_it(
    stub: PolicyEndpoint, open_box: OpenBox, tracing: OtlpReceiver
) -> None:
    named = quick_endpoint(stub.base_url, trace_hosts=("127.0.0.1",))
    async with named as endpoint, open_box(Interceptor(endpoint)) as box:
        traced_rollout(box)
        await box.post(CHAT, HELLO)
    call = tracing.wait_for("chat alice/stub")
    headers = {name.lower(): value for name, value in stub.requests[0].headers.items()}
    assert headers["traceparent"] == f"00-{call.trace_id}-{call.span_id}-01"


async def test_a_call_without_an_answer_has_failed(box: Box, stub: PolicyEndpoint, tracing: OtlpReceiver) -> None:
    traced_rollout(box)
    stub.always = Fault.SERVER_ERROR
    await box.post(CHAT, HELLO)
    call = tracing.wait_for("chat alice/stub")
    assert call.failed
    assert (call.attributes["error.type"], call.attributes["envhub.retries"]) == ("503", 2)


async def test_a_judges_call_is_below_the_rollout_that_asks(
    stub: PolicyEndpoint, open_box: OpenBox, tracing: OtlpReceiver
) -> None:
    async with (
        quick_endpoint(stub.base_url) as endpoint,
        open_box(Interceptor(endpoint, judges={"*": endpoint})) as box,
    ):
        rollout = traced_rollout(box).span
        headers = {ROLLOUT_HEADER: "g.0"}
        async with box.http.post("http://box/judge/v1/chat/completions", json=HELLO, headers=headers) as response:
            assert response.status == 200
    call = tracing.wait_for("chat alice/stub")
    assert rollout.context is not None
    assert (call.parent_id, call.attributes["envhub.route"]) == (rollout.context.span_id, "judge")


async def test_what_an_endpoint_makes_up_is_no_attribute(box: Box, stub: PolicyEndpoint, tracing: OtlpReceiver) -> None:
    traced_rollout(box)
    stub.answer = lambda body: Answer("words", finish_reason="stop because of the secret")
    await box.post(CHAT, HELLO)
    assert "secret" not in str(tracing.wait_for("chat alice/stub").attributes)


async def test_a_rollout_that_is_not_traced_has_no_calls_either(box: Box, tracing: OtlpReceiver) -> None:
    box.interceptor.open("g.0", key="g.0")
    await box.post(CHAT, HELLO)
    begin_span("later").end()
    tracing.wait_for("later")
    assert not tracing.named("chat alice/stub")
