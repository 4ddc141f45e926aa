"""Storing rollouts: idempotent, never doubled, infrastructure failures give way."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import positions, write_segment
from envhub.protocol.evals.evaluations import INLINE_BYTES, EvaluationSummary, SegmentRequest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, Usage
from envhub.protocol.runs import FailureKind, RunState

from hub.core.errors import Conflict, Invalid
from hub.evals.models import Evaluation, ExampleScore, RolloutIndex, Segment
from hub.evals.queries import get_rollout, read_record
from hub.evals.services import add_segment
from hub.evals.wire import evaluation_summary
from hub.storage.queries import held_sizes
from hub.storage.quota import QuotaExceeded
from tests.factories.evals import create_hosted, make_failure, make_record, make_records, make_segment, store
from tests.factories.storage import make_blob

pytestmark = pytest.mark.django_db


@pytest.fixture
def evaluation() -> Evaluation:
    return create_hosted()


def _summary(evaluation: Evaluation) -> EvaluationSummary:
    evaluation.refresh_from_db()
    return evaluation_summary(evaluation)


def test_a_segment_is_stored_and_counted(evaluation: Evaluation) -> None:
    assert store(evaluation, make_records([1, 0], [1, 1])) == 4
    summary = _summary(evaluation)
    assert summary.reward is not None
    assert (summary.reward.mean, summary.stored, summary.scored) == (0.75, 4, 4)
    assert [item.value for item in summary.pass_at_k] == pytest.approx([0.75, 1.0])
    assert summary.usage == Usage(prompt_tokens=8, completion_tokens=4)


def test_the_same_call_again_changes_nothing(evaluation: Evaluation) -> None:
    records = make_records([1, 0])
    store(evaluation, records)
    before = _summary(evaluation)
    assert store(evaluation, records) == 0
    assert _summary(evaluation) == before
    assert (RolloutIndex.objects.count(), Segment.objects.count()) == (2, 1)


def test_a_resumed_attempt_never_doubles_a_rollout(evaluation: Evaluation) -> None:
    store(evaluation, make_records([1, 0]))
    assert store(evaluation, [make_record(0, 1, 1.0), make_record(1, 0, 1.0)]) == 1
    assert get_rollout(evaluation, 0, 1).reward == 0.0
    assert _summary(evaluation).stored == 3


def test_a_rollout_that_was_never_reported_does_not_change_the_data_set(evaluation: Evaluation) -> None:
    lost = make_failure(0, 0, FailureKind.ENVIRONMENT).model_copy(update={"example_hash": ""})
    assert [store(evaluation, [lost]), store(evaluation, [make_record(0, 1, 1.0)])] == [1, 1]
    assert store(evaluation, [lost.model_copy(update={"rollout": 2})]) == 1
    assert ExampleScore.objects.get().example_hash == f"{0:064x}"


def test_a_rollout_twice_in_one_segment_counts_once(evaluation: Evaluation) -> None:
    assert store(evaluation, [make_record(0, 0, 0.0), make_record(0, 0, 1.0)]) == 1
    assert get_rollout(evaluation, 0, 0).reward == 0.0


@pytest.mark.parametrize("kind", [FailureKind.INFRASTRUCTURE, FailureKind.CANCELLED])
def test_an_infrastructure_failure_gives_way_to_its_next_attempt(evaluation: Evaluation, kind: FailureKind) -> None:
    store(evaluation, [make_failure(0, 0, kind), make_record(0, 1, 1.0)])
    assert store(evaluation, [make_record(0, 0, 0.0)]) == 1
    summary = _summary(evaluation)
    assert summary.outcomes == {"ok": 2}
    assert summary.usage == Usage(prompt_tokens=4, completion_tokens=2)
    assert read_record(get_rollout(evaluation, 0, 0)).reward == 0.0


@pytest.mark.parametrize("kind", [FailureKind.ENVIRONMENT, FailureKind.POLICY, FailureKind.VERIFIER, FailureKind.LIMIT])
def test_any_other_failure_is_a_result_and_stays(evaluation: Evaluation, kind: FailureKind) -> None:
    store(evaluation, [make_failure(0, 0, kind)])
    assert store(evaluation, [make_record(0, 0, 1.0)]) == 0


def test_a_scored_rollout_never_gives_way_to_a_failure(evaluation: Evaluation) -> None:
    store(evaluation, [make_record(0, 0, 1.0)])
    assert store(evaluation, [make_failure(0, 0)]) == 0


def test_examples_spread_over_segments_add_up(evaluation: Evaluation) -> None:
    for rollout, rewards in enumerate([(1, 0), (0, 0), (1, 0)]):
        store(evaluation, [make_record(g, rollout, reward) for g, reward in enumerate(rewards)])
    summary = _summary(evaluation)
    assert summary.reward is not None
    # example means 2/3 and 0: se = |2/3 - 0| / 2
    assert summary.reward.std_error == pytest.approx(1 / 3)
    assert ExampleScore.objects.count() == 2


def test_the_planned_number_is_learned_from_the_worker(evaluation: Evaluation) -> None:
    request = make_segment(make_records([1])).model_copy(update={"total_rollouts": 77})
    add_segment(evaluation=evaluation, request=request, trusted=True)
    assert _summary(evaluation).planned == 77


def test_another_row_under_a_known_example_is_refused(evaluation: Evaluation) -> None:
    store(evaluation, [make_record(0, 0)])
    with pytest.raises(Conflict) as caught:
        store(evaluation, [make_record(0, 1, example_hash="f" * 64)])
    assert caught.value.code == "dataset_changed"
    assert _summary(evaluation).stored == 1


def test_nothing_is_added_once_the_evaluation_has_ended(evaluation: Evaluation) -> None:
    Evaluation.objects.filter(pk=evaluation.pk).update(state=RunState.SUCCEEDED.value)
    with pytest.raises(Conflict):
        store(evaluation, [make_record()])


def test_a_segment_that_was_not_uploaded_is_refused(evaluation: Evaluation) -> None:
    rows = make_segment([make_record()]).rows
    with pytest.raises(Invalid):
        add_segment(evaluation=evaluation, request=SegmentRequest(sha256="0" * 64, size=5, rows=rows), trusted=True)


def within(records: Sequence[RolloutRecord]) -> SegmentRequest:
    content = write_segment(records)
    sha256, rows = hashlib.sha256(content).hexdigest(), index_rows(records, positions(content))
    return SegmentRequest(sha256=sha256, size=len(content), content=content, rows=tuple(rows))


def test_a_small_segment_comes_within_its_request(evaluation: Evaluation) -> None:
    request = SegmentRequest.model_validate_json(within(make_records([1, 0])).model_dump_json())
    assert [add_segment(evaluation=evaluation, request=request, trusted=False) for _ in range(2)] == [2, 0]
    assert read_record(get_rollout(evaluation, 0, 0)).reward == 1.0
    assert held_sizes([request.sha256], evaluation.owner_id) == {request.sha256: request.size}


@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"size": 5}, {"content": b"other"}])
def test_content_that_is_not_what_it_says_is_refused(evaluation: Evaluation, change: dict[str, object]) -> None:
    request = within(make_records([1])).model_copy(update=change)
    with pytest.raises(Invalid, match="does not match its size or SHA-256"):
        add_segment(evaluation=evaluation, request=request, trusted=True)


def test_content_that_is_too_large_for_a_request_is_refused(evaluation: Evaluation) -> None:
    request = within(make_records([1])).model_copy(update={"content": bytes(INLINE_BYTES + 1)})
    with pytest.raises(Invalid, match=f"at most {INLINE_BYTES} bytes") as caught:
        add_segment(evaluation=evaluation, request=request, trusted=True)
    assert "upload it first" in caught.value.hint


def test_content_for_which_there_is_no_room_is_refused(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.storage.quota.quota", lambda owner: 100)
    with pytest.raises(QuotaExceeded):
        add_segment(evaluation=evaluation, request=within(make_records([1, 0])), trusted=True)
    assert Segment.objects.count() == 0


@pytest.mark.parametrize(
    "change",
    [
        {"reward": float("nan")},
        {"reward": 1e200},
        {"metrics": {"m": float("inf")}},
        {"metrics": {f"m{i}": 1.0 for i in range(201)}},
        {"metrics": {"m" * 201: 1.0}},
        {"duration_s": float("inf")},
        {"example": -1},
        {"example": 2**31},
        {"rollout": 2**15},
        {"row_group": -1},
        {"usage": Usage(prompt_tokens=2**60)},
        {"failure_kind": FailureKind.POLICY},
        {"outcome": Outcome.FAILED},
    ],
)
def test_a_row_that_no_column_or_statistic_can_hold_is_refused(
    evaluation: Evaluation, change: dict[str, object]
) -> None:
    (row,) = make_segment([make_record()]).rows
    with pytest.raises(Invalid):
        add_segment(
            evaluation=evaluation,
            request=make_segment([make_record()], rows=[row.model_copy(update=change)]),
            trusted=True,
        )


def test_a_file_from_a_pusher_is_opened_before_it_is_believed(evaluation: Evaluation) -> None:
    blob = make_blob(b"not parquet")
    request = SegmentRequest(sha256=blob.sha256, size=blob.size, rows=make_segment([make_record()]).rows)
    with pytest.raises(Invalid) as caught:
        add_segment(evaluation=evaluation, request=request, trusted=False)
    assert caught.value.code == "bad_segment"


def test_a_pushers_row_that_points_outside_its_segment_is_refused(evaluation: Evaluation) -> None:
    (row,) = make_segment([make_record()]).rows
    request = make_segment([make_record()], rows=[row.model_copy(update={"row": 5})])
    with pytest.raises(Invalid, match="outside"):
        add_segment(evaluation=evaluation, request=request, trusted=False)


def test_a_guard_that_refuses_leaves_nothing_behind(evaluation: Evaluation) -> None:
    def refuse() -> None:
        raise Conflict("over", code="stale_attempt")

    with pytest.raises(Conflict):
        add_segment(evaluation=evaluation, request=make_segment([make_record()]), trusted=True, guard=refuse)
    assert not RolloutIndex.objects.exists()
