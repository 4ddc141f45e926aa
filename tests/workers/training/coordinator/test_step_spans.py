"""The spans of training steps: rollouts, the learner's update, and the weights' way to the engine."""

from __future__ import annotations

from envhub.client.telemetry.tracing import begin_span, inside, span

from tests.fakes.otlp_receiver import OtlpReceiver
from workers.training.coordinator.step_spans import StepSpans


def test_a_step_has_its_parts_one_after_the_other(tracing: OtlpReceiver) -> None:
    spans = StepSpans()
    with span("run train"):
        with inside(spans.rollouts(1)):
            begin_span("rollout").end()
        spans.cut(1, rollouts=16)
        with spans.published(1):
            begin_span("publish weights").end()
    step = tracing.wait_for("step 1")
    parts = {name: tracing.wait_for(name) for name in ("rollouts", "learner update", "publish weights")}
    assert {part.parent_id for part in parts.values()} == {step.span_id}
    assert tracing.wait_for("rollout").parent_id == parts["rollouts"].span_id
    assert (step.attributes, step.parent_id) == (
        {"envhub.step": 1, "envhub.rollouts": 16},
        tracing.wait_for("run train").span_id,
    )


def test_steps_may_overlap(tracing: OtlpReceiver) -> None:
    spans = StepSpans()
    spans.rollouts(1)
    spans.cut(1, rollouts=8)
    with inside(spans.rollouts(2)):
        begin_span("rollout").end()
    with spans.published(1):
        pass
    assert not tracing.named("step 2")
    spans.close()
    second = tracing.wait_for("step 2")
    parts = {one.span_id: one.parent_id for one in tracing.named("rollouts")}
    assert parts[tracing.wait_for("rollout").parent_id] == second.span_id


def test_steps_that_an_earlier_attempt_has_cut_have_none(tracing: OtlpReceiver) -> None:
    spans = StepSpans()
    spans.cut(4, rollouts=8)
    with spans.published(4):
        begin_span("publish weights").end()
    assert tracing.wait_for("publish weights").parent_id == ""
