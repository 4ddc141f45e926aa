"""The spans of rollouts: their results in words of ours, and not more of them than a trace can hold."""

from __future__ import annotations

import pytest
from envhub.client.telemetry.tracing import begin_span, span
from envhub.protocol.evals.rollouts import Outcome, RolloutFailure, RolloutRecord
from envhub.protocol.runner import Group, Policy
from envhub.protocol.runs import FailureKind

from tests.fakes.otlp_receiver import OtlpReceiver
from workers.rollouts.interceptor.recorder import Caps, Recorder
from workers.rollouts.spans import GroupSpans, Traced, group_spans


def run_group(n: int, *records: RolloutRecord, traced: Traced | None = None, retry: int = 0) -> list[Recorder]:
    """A try at a group that gives these records; its recorders, the shared one last."""
    group = Group(id="g", example=7, n=n, policy=Policy(base_url="http://x", model="m"))
    own, shared = {index: Recorder(f"g.{index}", Caps()) for index in range(n)}, Recorder("g.g", Caps())
    with span("run eval"), group_spans(group, own, shared, retry, traced or Traced(10)) as spans:
        assert isinstance(spans, GroupSpans)
        for record in records:
            spans.note_report(record.rollout)
            spans.end(record)
    return [*own.values(), shared]


def record(rollout: int = 0, **changes: object) -> RolloutRecord:
    fields = {"example": 7, "rollout": rollout, "example_hash": "0" * 64, "outcome": Outcome.OK, "reward": 0.5}
    return RolloutRecord.model_validate(fields | changes)


def test_a_rollout_says_which_it_is_and_what_became_of_it(tracing: OtlpReceiver) -> None:
    run_group(1, record(stop_condition="max_turns"), retry=2)
    rollout = tracing.wait_for("rollout")
    expected = {"envhub.example": 7, "envhub.rollout": 0, "envhub.retry": 2, "envhub.outcome": "ok"}
    assert (
        expected | {"envhub.reward": 0.5, "envhub.stop_condition": "max_turns"}
    ).items() <= rollout.attributes.items()
    assert rollout.parent_id == tracing.wait_for("run eval").span_id


def test_rollouts_of_a_group_are_below_it(tracing: OtlpReceiver) -> None:
    *own, shared = run_group(2, record(0), record(1))
    group = tracing.wait_for("group of 2")
    assert [one.parent_id for one in tracing.named("rollout")] == [group.span_id] * 2
    assert shared.span.context is not None
    assert shared.span.context.span_id == group.span_id
    assert {one.span.context and one.span.context.span_id for one in own} == {
        one.span_id for one in tracing.named("rollout")
    }


def test_a_failed_rollout_is_told_by_kind_and_type(tracing: OtlpReceiver) -> None:
    failure = RolloutFailure(kind=FailureKind.ENVIRONMENT, type="ValueError", message="the secret", traceback="secret")
    run_group(1, record(outcome=Outcome.FAILED, reward=None, failure=failure))
    rollout = tracing.wait_for("rollout")
    assert rollout.failed
    assert (rollout.attributes["envhub.failure.kind"], rollout.attributes["envhub.failure.type"]) == (
        "environment",
        "ValueError",
    )
    assert "secret" not in str(rollout.attributes)


@pytest.mark.parametrize("text", ["two words", "x" * 101, "sk-key", "line\nline", "日本"])
def test_what_a_box_says_is_told_only_where_it_is_a_name(tracing: OtlpReceiver, text: str) -> None:
    failure = RolloutFailure(kind=FailureKind.ENVIRONMENT, type=text, message="")
    run_group(1, record(outcome=Outcome.FAILED, reward=None, failure=failure, stop_condition=text))
    told = tracing.wait_for("rollout").attributes
    assert not {"envhub.failure.type", "envhub.stop_condition"} & told.keys()


def test_the_first_rollouts_are_traced_and_then_one_of_a_hundred(tracing: OtlpReceiver) -> None:
    traced = Traced(3)
    assert [number for number in range(250) if traced.next()] == [0, 1, 2, 100, 200]


def test_no_rollout_is_traced_where_nothing_is_exported() -> None:
    assert not Traced(3).next()


def test_rollouts_can_be_left_out(tracing: OtlpReceiver) -> None:
    run_group(1, record(), traced=Traced(0))
    begin_span("later").end()
    tracing.wait_for("later")
    assert not tracing.named("rollout")
