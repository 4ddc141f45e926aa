"""The files under saved/ were written by vf-eval of verifiers 0.1.14, 0.2.1 and 0.4.0 (paths made neutral)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from envhub.errors import PackageError
from envhub.packaging.saved import traces
from envhub.packaging.saved.finding import read_saved_results
from envhub.packaging.saved.metadata import pass_at_k, write_results
from envhub.packaging.saved.results import to_records
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import FailureKind

SAVED = Path(__file__).parent / "saved"
CONFIG = EvaluationConfig(environment="alice/tiny-env", model="m", num_examples=3, rollouts_per_example=2).model_dump(
    mode="json"
)


def test_results_of_0_1_14_become_records() -> None:
    saved = read_saved_results(SAVED / "results-0.1.14")
    assert (saved.env_id, saved.model, len(saved.records), saved.torn) == ("tiny-env", "m", 6, 0)
    assert sorted((record.example, record.rollout) for record in saved.records)[:3] == [(0, 0), (0, 1), (1, 0)]
    first = saved.records[0]
    assert (first.reward, first.outcome, first.metrics["exact"]) == (1.0, Outcome.OK, 1.0)
    assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (5, 2)
    assert 0.09 < first.timing.total_s < 0.1
    assert saved.settings["rollouts_per_example"] == 2


def test_an_errored_rollout_has_no_reward_whatever_verifiers_computed() -> None:
    record = read_saved_results(SAVED / "results-0.1.14-failed").records[0]
    assert record.library["reward"] == 0.0
    assert (record.outcome, record.reward) == (Outcome.FAILED, None)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.INFRASTRUCTURE


def test_traces_of_0_4_0_become_records_with_turns() -> None:
    saved = read_saved_results(SAVED / "traces-0.4.0")
    assert (saved.format, saved.env_id, saved.model) == ("traces.jsonl", "count-words", "m")
    first = saved.records[0]
    assert (first.reward, first.metrics, first.weights) == (1.0, {"exact": 1.0}, {"exact": 1.0})
    assert first.completion == [{"role": "assistant", "content": "2"}]
    (turn,) = first.turns
    assert (turn.finish_reason, turn.usage.prompt_tokens, turn.trainable) == ("stop", 5, False)
    assert turn.request["messages"] == first.prompt


def test_traces_of_0_2_1_become_records_whose_rewards_are_weighted_already() -> None:
    saved = read_saved_results(SAVED / "traces-0.2.1")
    assert (saved.env_id, saved.model, saved.settings["num_examples"]) == ("current_words", "stub", 2)
    assert [(record.example, record.reward, record.metrics["said"]) for record in saved.records] == [
        (1, 2.0, 2.0),
        (0, 2.0, 2.0),
    ]
    assert saved.records[0].timing.generation_s > 1
    assert {record.outcome for record in saved.records} == {Outcome.OK}


def test_a_trace_of_0_2_1_with_an_error_is_a_failed_rollout() -> None:
    error = {"type": "ProviderError", "message": "no such model"}
    line = {"task": {"data": {"idx": 0}}, "nodes": [], "rewards": {"said": 1.0}, "errors": [error]}
    (record,) = traces.to_records([line])
    assert (record.outcome, record.reward) == (Outcome.FAILED, None)


def test_the_reward_of_several_trained_agents_is_their_mean() -> None:
    def trace(score: float, *, trainable: bool = True) -> JsonObject:
        return {"agent": {"trainable": trainable}, "rewards": {"won": {"score": score}}}

    episode = [trace(1.0), trace(0.0), trace(5.0, trainable=False)]
    (record,) = traces.to_records([{"task": {"data": {"idx": 0}}, "ok": True, "traces": episode}])
    assert record.reward == 0.5


@pytest.mark.parametrize("given", ["", "long" * 20, {}, "\x00" * 64])
def test_a_task_without_a_usable_hash_has_that_of_its_data(tmp_path: Path, given: object) -> None:
    directory = shutil.copytree(SAVED / "traces-0.4.0", tmp_path / "run")
    lines = [json.loads(line) for line in (directory / "traces.jsonl").read_text().splitlines()]
    for line in lines:
        line["task"]["hash"] = given
    (directory / "traces.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    records = read_saved_results(directory).records
    assert {len(record.example_hash) for record in records} == {64}
    assert len({record.example_hash for record in records}) == len({record.example for record in records})


def test_a_failed_episode_names_its_provider_error() -> None:
    record = read_saved_results(SAVED / "traces-0.4.0-failed").records[0]
    assert record.failure is not None
    assert (record.failure.kind, record.failure.type) == (FailureKind.INFRASTRUCTURE, "ProviderError")
    assert record.turns[0].status == 502


def test_a_torn_last_line_is_counted_and_left_out(tmp_path: Path) -> None:
    directory = shutil.copytree(SAVED / "results-0.1.14", tmp_path / "run")
    text = (directory / "results.jsonl").read_text()
    (directory / "results.jsonl").write_text(text[:-40])
    saved = read_saved_results(directory)
    assert (len(saved.records), saved.torn) == (5, 1)


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    directory = shutil.copytree(SAVED / "results-0.1.14", tmp_path / "run")
    lines = (directory / "results.jsonl").read_text().splitlines(keepends=True)
    (directory / "results.jsonl").write_text(lines[0] + "{broken\n" + lines[1])
    with pytest.raises(PackageError, match="line 2"):
        read_saved_results(directory)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("results-0.1.14/results.jsonl", '{"example_id": 0, "reward": 1.0, "timing": "5 s"}'),
        ("traces-0.4.0/traces.jsonl", '{"ok": true, "traces": [{"nodes": ["hello"], "calls": 3}]}'),
        ("traces-0.4.0/traces.jsonl", '{"ok": true, "traces": [{"stop_condition": {}}]}'),
    ],
)
def test_a_rollout_that_verifiers_did_not_write_is_named(tmp_path: Path, name: str, line: str) -> None:
    directory = shutil.copytree((SAVED / name).parent, tmp_path / "run")
    file = directory / Path(name).name
    first = file.read_text().partition("\n")[0]
    file.write_text(f"{first}\n{line}\n")
    with pytest.raises(PackageError, match="rollout 2"):
        read_saved_results(directory)


def test_the_fingerprint_does_not_depend_on_the_order(tmp_path: Path) -> None:
    directory = shutil.copytree(SAVED / "results-0.1.14", tmp_path / "run")
    lines = (directory / "results.jsonl").read_text().splitlines(keepends=True)
    before = read_saved_results(directory).fingerprint
    (directory / "results.jsonl").write_text("".join(reversed(lines)))
    assert read_saved_results(directory).fingerprint == before
    (directory / "results.jsonl").write_text("".join(lines[1:]))
    assert read_saved_results(directory).fingerprint != before


def test_a_parent_directory_is_answered_with_the_right_one() -> None:
    with pytest.raises(PackageError) as caught:
        read_saved_results(SAVED)
    assert "traces-0.4.0" in caught.value.hint


def test_metrics_of_old_releases_lie_at_top_level() -> None:
    row = {"example_id": 0, "reward": 1.0, "exact": 0.5, "generation_ms": 1500.0, "answer": "x", "flag": True}
    (record,) = to_records([row])
    assert (record.metrics, record.timing.generation_s) == ({"exact": 0.5}, 1.5)


def test_rollouts_up_to_0_1_5_belong_to_the_example_whose_content_they_have(tmp_path: Path) -> None:
    rows = [
        {"id": position // 2, "prompt": question, "answer": "4", "reward": 1.0, "exact": 1.0}
        for position, question in enumerate(["2 + 2?", "1 + 3?"] * 2)  # verifiers repeated the dataset as a whole
    ]
    (tmp_path / "results.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "metadata.json").write_text('{"env": "sums", "model": "m"}')
    saved = read_saved_results(tmp_path)
    assert [(record.example, record.rollout) for record in saved.records] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert (saved.env_id, saved.records[0].metrics) == ("sums", {"exact": 1.0})


def test_what_a_rollout_changed_of_its_info_makes_no_other_example() -> None:
    rows = [{"example_id": 0, "prompt": "2 + 2?", "info": {"seed": seed}, "reward": 1.0} for seed in (1, 2)]
    first, second = to_records(rows)
    assert first.example_hash == second.example_hash
    assert first.task["info"] != second.task["info"]


def test_a_reward_that_is_no_number_is_a_verifier_failure() -> None:
    (record,) = to_records([{"example_id": 0, "reward": float("nan")}])
    assert record.failure is not None
    assert record.failure.kind is FailureKind.VERIFIER


@pytest.mark.parametrize("score", ["null", "NaN", '"1"'])
def test_a_score_that_is_no_number_is_a_verifier_failure_and_no_0(tmp_path: Path, score: str) -> None:
    directory = shutil.copytree(SAVED / "traces-0.4.0", tmp_path / "run")
    path = directory / "traces.jsonl"
    path.write_text(re.sub(r'"score": ?1.0', f'"score": {score}', path.read_text()))
    record = read_saved_results(directory).records[0]
    assert (record.outcome, record.reward) == (Outcome.FAILED, None)
    assert record.failure is not None
    assert (record.failure.kind, record.failure.type) == (FailureKind.VERIFIER, "NoReward")


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    records = read_saved_results(SAVED / "results-0.1.14").records
    assert write_results(tmp_path, CONFIG, records, base_url="http://127.0.0.1") == 6
    again = read_saved_results(tmp_path)
    kept = {"example", "rollout", "outcome", "reward", "metrics", "completion", "usage", "stop_condition"}
    expected = [record.model_dump(include=kept) for record in sorted(records, key=lambda r: (r.example, r.rollout))]
    assert [record.model_dump(include=kept) for record in again.records] == expected
    assert again.metadata["pass_at_k"] == {"1": pytest.approx(1 / 3), "2": pytest.approx(1 / 3)}
    assert again.metadata["avg_reward"] == pytest.approx(1 / 3)


def test_pass_at_k_is_unbiased() -> None:
    rows = [{"example_id": 0, "reward": reward} for reward in (1.0, 0.0, 0.0, 0.0)]
    assert pass_at_k(list(to_records(rows)), 4) == {"1": 0.25, "2": 0.5, "3": 0.75, "4": 1.0}
