"""Results as `prime eval push` and `vf-eval` send them, and runs of `prime eval run --hosted`."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runs import Failure, FailureKind, RunState

from hub.accounts.models import User
from hub.evals import segment_reading
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.queries import get_rollout, read_record
from hub.registry.models import Environment, Version
from hub.runs.services.finishing import end_attempt
from hub.runs.services.logs import append_log
from hub.secrets.services import set_secret
from hub.storage.queries import local_or_temp_path
from tests.factories.accounts import make_owner, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted, make_record, start, store
from tests.factories.registry import create_needing_version, create_ready_version, push_version
from tests.hub.compat.prime_client import PrimeClient

pytestmark = pytest.mark.django_db
SAVED = Path(__file__).parents[2] / "envhub" / "packaging" / "saved"
METADATA = json.loads((SAVED / "results-0.1.14" / "metadata.json").read_text())


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAVED / name).read_text().splitlines()]


def begin(prime: PrimeClient, **more: Any) -> Evaluation:
    body = {"name": "tiny-env-m", "model_name": "m", "environments": [{"id": "alice.tiny-env"}], "tags": [], **more}
    return Evaluation.objects.get(pk=prime.done("post", "evaluations/", body)["evaluation_id"])


def send(prime: PrimeClient, evaluation: Evaluation, samples: list[Any]) -> int:
    return int(prime.done("post", f"evaluations/{evaluation.pk}/samples", {"samples": samples})["samples_stored"])


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def test_results_of_vf_eval_are_an_evaluation_like_those_of_hub_eval_push(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    push_version(alice)
    prime = PrimeClient(alice)
    evaluation = begin(prime, metadata=METADATA, is_public=False)
    samples = lines("results-0.1.14/results.jsonl")
    assert send(prime, evaluation, samples[:4]) == 4
    assert send(prime, evaluation, samples[4:]) == 2
    prime.done("post", f"evaluations/{evaluation.pk}/finalize", {"metrics": {"reward": 0.9}})
    shown = prime.done("get", f"evaluations/{evaluation.pk}")
    assert (shown["status"], shown["is_hosted"], shown["total_samples"]) == ("COMPLETED", False, 6)
    assert shown["metrics"]["reward"] == pytest.approx(METADATA["avg_reward"])  # ours, not what was told
    assert shown["metadata"]["rollouts_per_example"] == METADATA["rollouts_per_example"]
    evaluation.refresh_from_db()
    assert (evaluation.planned, evaluation.visibility) == (6, "private")
    assert evaluation.push_metadata["metrics"] == {"reward": 0.9}
    keys = set(RolloutIndex.objects.values_list("example", "rollout"))
    assert keys == {(sample["example_id"], rollout) for sample in samples for rollout in range(2)}
    page = prime.done("get", f"evaluations/{evaluation.pk}/samples", page=2, limit=4)
    assert (len(page["samples"]), page["total"], page["has_more"]) == (2, 6, False)
    assert page["samples"][0]["completion"] == samples[4]["completion"]
    opened: list[str] = []

    def counted(blob: str) -> AbstractContextManager[Path]:
        opened.append(blob)
        return local_or_temp_path(blob)

    monkeypatch.setattr(segment_reading, "local_or_temp_path", counted)
    whole = prime.done("get", f"evaluations/{evaluation.pk}/samples")["samples"]
    assert ([one["completion"] for one in whole], len(opened)) == ([one["completion"] for one in samples], 2)


def test_a_batch_whose_answer_was_lost_is_not_stored_twice(alice: User) -> None:
    push_version(alice)
    prime = PrimeClient(alice)
    evaluation, samples = begin(prime), lines("results-0.1.14/results.jsonl")
    assert [send(prime, evaluation, samples) for _ in range(2)] == [6, 0]
    prime.done("post", f"evaluations/{evaluation.pk}/finalize")
    assert send(prime, evaluation, samples) == 0  # `prime eval push --eval` sends all of them again
    late = prime.call("post", f"evaluations/{evaluation.pk}/samples", {"samples": samples[:1]})
    assert (late.status_code, RolloutIndex.objects.count()) == (409, 6)


def test_an_episode_of_the_current_generation_keeps_its_turns(alice: User) -> None:
    push_version(alice)
    prime = PrimeClient(alice)
    episodes = lines("traces-0.4.0/traces.jsonl")
    evaluation = begin(prime)
    wrapped = [{"example_id": 7, "reward": 99, "info": {"native_wrapper": episode}} for episode in episodes[:1]]
    assert send(prime, evaluation, wrapped) == 1
    record = read_record(get_rollout(evaluation, 7, 0))
    assert record.turns
    assert record.reward != 99


def test_examples_without_a_number_are_told_apart_by_their_content(alice: User) -> None:
    push_version(alice)
    prime = PrimeClient(alice)
    evaluation = begin(prime)

    def sample(question: str, reward: float = 1.0) -> dict[str, Any]:
        prompt = [{"role": "user", "content": question}]
        return {"prompt": prompt, "completion": [{"role": "assistant", "content": "a"}], "reward": reward}

    send(prime, evaluation, [sample("one"), sample("two")])
    send(prime, evaluation, [sample("two", 0.5), sample("three")])
    assert set(RolloutIndex.objects.values_list("example", "rollout")) == {(0, 0), (1, 0), (1, 1), (2, 0)}
    evaluation.refresh_from_db()
    assert evaluation.config["rollouts_per_example"] == 2


@pytest.mark.parametrize("name", ["<script>", "a b", "", "x" * 100])
def test_what_cannot_be_a_name_makes_no_environment(alice: User, name: str) -> None:
    prime = PrimeClient(alice)
    refused = prime.call("post", "evaluations/", {"name": "x", "environments": [{"id": f"alice.{name}"}]})
    assert refused.status_code == 422
    assert prime.call("post", "environmentshub/resolve", {"name": name}).status_code == 422
    assert not Environment.objects.exists()


def test_numbers_that_no_column_holds_are_refused(alice: User) -> None:
    push_version(alice)
    prime = PrimeClient(alice)
    evaluation = begin(prime)
    for wrong in ({"example_id": 10**30}, {"example_id": -1}, {"token_usage": {"input_tokens": 1e18}}):
        sample = {"prompt": "p", "completion": "c", "reward": 1.0, "example_id": 0} | wrong
        assert prime.call("post", f"evaluations/{evaluation.pk}/samples", {"samples": [sample]}).status_code == 422
    assert not RolloutIndex.objects.exists()


@pytest.mark.parametrize("sample", [17, {"info": {"native_wrapper": {"traces": 5}}}, {"timing": 5, "reward": 1}])
def test_what_is_no_sample_is_refused_and_nothing_of_its_batch_is_kept(alice: User, sample: Any) -> None:
    push_version(alice)
    prime = PrimeClient(alice)
    evaluation, good = begin(prime), lines("results-0.1.14/results.jsonl")[:1]
    refused = prime.call("post", f"evaluations/{evaluation.pk}/samples", {"samples": [*good, sample]})
    assert refused.status_code == 422
    assert "sample 2 is not as verifiers writes it" in refused.json()["detail"]
    assert not RolloutIndex.objects.exists()
    assert send(prime, evaluation, good) == 1


def test_results_of_an_environment_that_nobody_has_pushed_are_kept_privately(alice: User) -> None:
    prime = PrimeClient(alice)
    resolved = prime.done("post", "environmentshub/resolve", {"name": "my_env"})
    assert not Environment.objects.exists()
    evaluation = begin(prime, environments=[{"id": resolved["id"]}])
    environment = Environment.objects.get()
    assert (environment.name, environment.visibility, evaluation.environment) == ("my-env", "private", environment)
    bob = PrimeClient(make_user("bob"))
    refused = bob.call("post", "evaluations/", {"name": "x", "environments": [{"id": "alice.other"}]})
    assert (refused.status_code, Environment.objects.count()) == (404, 1)


def test_an_upload_that_fails_says_why(alice: User) -> None:
    push_version(alice)
    prime = PrimeClient(alice)
    evaluation = begin(prime)
    prime.done("put", f"evaluations/{evaluation.pk}", {"status": "FAILED", "error_message": "crashed: no room"})
    shown = prime.done("get", f"evaluations/{evaluation.pk}")
    assert (shown["status"], shown["error_message"]) == ("FAILED", "crashed: no room")
    again = prime.call("put", f"evaluations/{evaluation.pk}", {"status": "CANCELLED"})
    assert again.status_code == 409
    assert prime.done("put", f"evaluations/{evaluation.pk}", {"name": "renamed"})["name"] == "renamed"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"environments": []}, "not of 0"),
        ({"environments": 17}, "not of 0"),
        ({"environments": [{"id": "alice.tiny-env"}, {"id": "alice.other"}]}, "not of 2"),
        ({"environments": [], "run_id": "r"}, "training run"),
        ({"environments": [{"id": "clm4no5000abcdefghijklmno"}]}, "no environment"),
        ({"environments": [{"id": "alice.tiny-env", "version_id": "9.9"}]}, "no version 9.9"),
    ],
)
def test_what_cannot_begin_says_why(alice: User, body: dict[str, Any], said: str) -> None:
    push_version(alice)
    refused = PrimeClient(alice).call("post", "evaluations/", {"name": "x", **body})
    assert refused.status_code in {404, 422}
    assert said in refused.json()["detail"]


def test_a_list_is_of_ones_own_or_of_a_team(alice: User) -> None:
    push_version(alice)
    make_owner("lab", members=[alice])
    prime = PrimeClient(alice)
    own = begin(prime)
    teams = begin(prime, team_id="lab")

    def ids(**query: Any) -> list[str]:
        return [row["evaluation_id"] for row in prime.done("get", "evaluations/", **query)["evaluations"]]

    assert (ids(), ids(team_id="lab")) == ([str(own.pk)], [str(teams.pk)])
    assert ids(environment_name="tiny-env") == ids(environment_name="alice/tiny-env") == [str(own.pk)]
    assert ids(environment_name="other") == []


def hosted(prime: PrimeClient, *, model: str = "alice/stub", **config: Any) -> Any:
    asked = {"num_examples": 1, "rollouts_per_example": 2, "allow_sandbox_access": True, **config}
    body = {"environment_ids": ["alice.tiny-env"], "inference_model": model, "eval_config": asked}
    return prime.call("post", "hosted-evaluations", body)


def test_a_run_on_the_hub_is_started_followed_and_stopped(alice: User) -> None:
    create_ready_version(alice)
    create_endpoint(alice, "stub", base_url="http://127.0.0.1:9/v1", max_retries=0)
    prime = PrimeClient(alice)
    reply = hosted(prime, env_args={}, sampling_args={"temperature": 0.5}, max_concurrent=3).json()
    evaluation = Evaluation.objects.get(pk=reply["evaluation_id"])
    assert reply["evaluation_ids"] == [str(evaluation.pk)]
    assert (evaluation.config["concurrency"], evaluation.config["sampling"]) == (3, {"temperature": 0.5})
    assert evaluation.version == Version.objects.get()
    assert prime.done("get", f"evaluations/{evaluation.pk}")["status"] == "PENDING"
    start(evaluation)
    evaluation.refresh_from_db()
    assert evaluation.run is not None
    append_log(run=evaluation.run, offset=0, text="1 example x 2\n")
    store(evaluation, [make_record()])
    assert prime.done("get", f"hosted-evaluations/{evaluation.pk}/logs")["logs"] == "1 example x 2\n"
    prime.done("patch", f"hosted-evaluations/{evaluation.pk}/cancel")
    assert prime.call("post", f"evaluations/{evaluation.pk}/samples", {"samples": [{}]}).status_code == 409


def test_a_run_that_failed_says_why_in_words_that_a_terminal_shows(alice: User) -> None:
    create_ready_version(alice)
    create_endpoint(alice, "stub", base_url="http://127.0.0.1:9/v1", max_retries=0)
    prime = PrimeClient(alice)
    evaluation = Evaluation.objects.get(pk=hosted(prime).json()["evaluation_id"])
    start(evaluation)
    evaluation.refresh_from_db()
    assert evaluation.run is not None
    append_log(run=evaluation.run, offset=0, text="[runner 0 ended] and [/x]\n")
    failure = Failure(kind=FailureKind.ENVIRONMENT, code="x", message="it has no [env] table", hint="write one")
    end_attempt(run=evaluation.run, to=RunState.FAILED, now=timezone.now(), failure=failure)
    shown = prime.done("get", f"evaluations/{evaluation.pk}")
    assert (shown["status"], shown["error_message"]) == ("FAILED", "it has no [ env ] table; write one")
    log = prime.done("get", f"hosted-evaluations/{evaluation.pk}/logs")["logs"]
    assert log.startswith("[ runner 0 ended ] and [ /x ]\n")


@pytest.mark.parametrize("key", ["api_base_url", "headers", "extra_env_kwargs"])
def test_what_a_run_here_cannot_be_given_is_refused_by_name(alice: User, key: str) -> None:
    create_ready_version(alice)
    refused = hosted(PrimeClient(alice), **{key: {"A": "secret-value"}})
    assert refused.status_code == 422
    assert key in refused.json()["detail"].lower()
    assert "secret-value" not in refused.json()["detail"]


def test_a_run_is_granted_the_stored_secrets_that_its_environment_needs(alice: User) -> None:
    create_needing_version(Need(kind=NeedKind.SECRET, name="SEARCH_KEY"), user=alice)
    create_endpoint(alice, "stub", base_url="http://127.0.0.1:9/v1", max_retries=0)
    prime = PrimeClient(alice)
    assert "SEARCH_KEY" in hosted(prime).json()["detail"]
    set_secret(owner=alice.owner, name="SEARCH_KEY", value="x", user=alice)
    set_secret(owner=alice.owner, name="OTHER_KEY", value="x", user=alice)
    evaluation = Evaluation.objects.get(pk=hosted(prime).json()["evaluation_id"])
    assert evaluation.config["secrets"] == ["SEARCH_KEY"]


def test_a_secret_that_comes_with_its_value_must_be_stored_already(alice: User) -> None:
    create_ready_version(alice)
    create_endpoint(alice, "stub", base_url="http://127.0.0.1:9/v1", max_retries=0)
    prime = PrimeClient(alice)
    set_secret(owner=alice.owner, name="TOOL_KEY", value="right", user=alice)
    for given in ({"TOOL_KEY": "secret-value"}, {"TOOL_KEY": "right", "OTHER_KEY": "secret-value"}):
        refused = hosted(prime, custom_secrets=given)
        assert refused.status_code == 422
        assert "prime secret create" in refused.json()["detail"]
        assert "secret-value" not in refused.json()["detail"]
    evaluation = Evaluation.objects.get(pk=hosted(prime, custom_secrets={"TOOL_KEY": "right"}).json()["evaluation_id"])
    assert evaluation.config["secrets"] == ["TOOL_KEY"]


def test_a_version_that_is_never_built_is_waited_for_within_patience(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    push_version(alice)
    monkeypatch.setattr("hub.compat.building._PATIENCE_S", 0.2)
    monkeypatch.setattr("hub.compat.building._POLL_S", 0.05)
    refused = hosted(PrimeClient(alice))
    assert (refused.status_code, "still being built" in refused.json()["detail"]) == (409, True)


def test_a_run_of_others_is_not_read_further_than_it_is_shown(alice: User) -> None:
    create_endpoint(alice, "stub", base_url="http://127.0.0.1:9/v1", max_retries=0)
    create_ready_version(alice)
    evaluation = create_hosted(alice)
    Evaluation.objects.update(visibility="public", state=RunState.SUCCEEDED.value)
    bob = PrimeClient(make_user("bob"))
    assert bob.call("get", f"evaluations/{evaluation.pk}").status_code == 200
    assert bob.call("get", f"hosted-evaluations/{evaluation.pk}/logs").status_code == 403


def test_there_is_no_second_store_of_traces() -> None:
    refused = PrimeClient(make_user()).call("post", "traces", {})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "service_not_enabled")
