"""One `hub eval run` is one trace, from the command to each call of the model."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from envhub.protocol.evals.evaluations import EvaluationView

from tests.e2e import reversing
from tests.e2e.stack import Stack
from tests.fakes.otlp_receiver import OtlpReceiver, Seen
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
EXAMPLES, ROLLOUTS = 2, 2


@dataclass
class Traced:
    """An evaluation that a traced command started, and its spans."""

    view: EvaluationView
    endpoint: PolicyEndpoint
    receiver: OtlpReceiver
    said: str  # by the command

    def __post_init__(self) -> None:
        self.run = self.receiver.wait_for("run eval", self.is_ours)
        self.command = self.receiver.wait_for("hub eval run", self.is_ours)
        self.request = self.receiver.wait_for("POST api/v1/evaluations", self.is_ours)

    def is_ours(self, span: Seen) -> bool:
        return span.trace_id == self.view.trace_id

    def named(self, name: str) -> list[Seen]:
        return [span for span in self.receiver.named(name) if self.is_ours(span)]

    def names_below(self, span: Seen) -> set[str]:
        return {one.name for one in self.receiver.spans if one.parent_id == span.span_id}


@pytest.fixture(scope="module")
def traced(stack: Stack, receiver: OtlpReceiver) -> Traced:
    environment = reversing.push_reverse_text(stack)
    endpoint = PolicyEndpoint(answer=reversing.right_answer)
    model = stack.register(endpoint)
    options = ("-n", str(EXAMPLES), "-r", str(ROLLOUTS), "-a", '{"length": 8}')
    started = stack.cli("eval", "run", environment, "-m", model, *options, "--no-wait", "--json")
    view = EvaluationView.model_validate(started.json)
    said = stack.cli("eval", "show", stack.finished(view.id).id).out
    return Traced(view, endpoint, receiver, said)


def test_the_command_says_its_trace(traced: Traced) -> None:
    assert traced.command.trace_id == traced.view.trace_id
    assert traced.command.trace_id in traced.said


def test_command_request_and_run_follow_from_one_another(traced: Traced) -> None:
    services = [span.service for span in (traced.command, traced.request, traced.run)]
    assert services == ["envhub-cli", "envhub-hub", "envhub-worker"]
    assert traced.command.parent_id == ""
    assert traced.request.parent_id == traced.command.span_id
    assert traced.run.parent_id == traced.request.span_id
    assert traced.run.attributes["envhub.run.id"] == traced.view.run_id


def test_the_run_shows_what_its_time_went_to(traced: Traced) -> None:
    expected = {"queued", "claim", "prepare environment", "prepare model", "box", "rollout", "store rollouts"}
    assert expected <= traced.names_below(traced.run)
    (box, *_) = traced.named("box")
    assert {"start sandbox", "load environment"} <= traced.names_below(box)
    (stored, *_) = traced.named("store rollouts")
    assert "POST api/v1/evaluations/<id:evaluation_id>/segments" in traced.names_below(stored)


def test_every_rollout_is_there_with_its_call(traced: Traced) -> None:
    rollouts = traced.named("rollout")
    planned = {(example, rollout) for example in range(EXAMPLES) for rollout in range(ROLLOUTS)}
    assert {(one.attributes["envhub.example"], one.attributes["envhub.rollout"]) for one in rollouts} == planned
    assert {one.attributes["envhub.outcome"] for one in rollouts} == {"ok"}
    calls = traced.named(f"chat {traced.view.model}")
    assert sorted(one.parent_id for one in calls) == sorted(one.span_id for one in rollouts)
    assert all(one.attributes["gen_ai.usage.output_tokens"] > 0 for one in calls)


def test_signs_of_life_are_no_part_of_it(traced: Traced) -> None:
    routes = {str(span.attributes.get("http.route")) for span in traced.receiver.spans if traced.is_ours(span)}
    assert not [route for route in routes if route.endswith(("heartbeat", "log", "shards"))]


def test_no_span_holds_what_was_asked_or_answered(traced: Traced) -> None:
    asked = [seen.body["messages"][-1]["content"] for seen in traced.endpoint.requests]
    texts = {text for prompt in asked for text in (prompt, prompt.removeprefix("reverse: ")[::-1])}
    told = " ".join(f"{span.name} {span.attributes}" for span in traced.receiver.spans)
    assert asked
    assert not [text for text in texts if text in told]


def test_the_models_endpoint_learns_nothing_of_it(traced: Traced) -> None:
    assert traced.endpoint.requests
    assert not [seen for seen in traced.endpoint.requests if "traceparent" in {name.lower() for name in seen.headers}]


def test_a_build_shows_its_stages(traced: Traced) -> None:
    build = traced.receiver.wait_for("run build")
    assert {"package", "resolve", "install"} <= {
        span.name for span in traced.receiver.spans if span.trace_id == build.trace_id
    }
