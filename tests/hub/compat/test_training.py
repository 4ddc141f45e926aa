"""Training runs as `prime train FILE.toml` of prime 0.6.35 starts them, and as its commands and those of 0.18 read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from envhub.protocol.registry.needs import CheckSettings, Need, NeedKind
from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import Histogram

from hub.accounts.models import Owner, User
from hub.registry.models import Version
from hub.runs.models import Run
from hub.runs.services.logs import append_log
from hub.secrets.services import set_secret
from hub.training.models import TrainingRun
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import create_needing_version, create_ready_version, push_version
from tests.factories.training_runs import checkpoint_report, create_run, create_trainable, report, start, step_report
from tests.hub.compat.prime_client import PrimeClient

pytestmark = pytest.mark.django_db
MOST_QUERIES = 14


@pytest.fixture
def alice() -> User:
    user = make_user("alice")
    create_trainable(user.owner)
    return user


def payload(**more: Any) -> dict[str, Any]:
    """What the client makes of a short file."""
    return {
        "model": {"name": "alice/base"},
        "environments": [{"id": "alice/tiny-env", "args": {"length": 4}}],
        "rollouts_per_example": 4,
        "max_steps": 3,
        "batch_size": 8,
        "secrets": [],
        **more,
    }


def created(user: User, **more: Any) -> TrainingRun:
    shown = PrimeClient(user).done("post", "rft/runs", payload(**more))["run"]
    return TrainingRun.objects.get(pk=shown["id"])


def refused(user: User, **more: Any) -> str:
    """What the client is told."""
    response = PrimeClient(user).call("post", "rft/runs", payload(**more))
    assert response.status_code in (404, 409, 422), response.content
    assert not TrainingRun.objects.exists()
    return str(response.json()["detail"])


def followed(user: User) -> TrainingRun:
    """A run of `hub train run` with two steps, the first with rollouts."""
    training = create_run(user)
    start(training)
    report(training, step_report(1, rewards=(1.0, 0.0)))
    report(training, step_report(2, rewards=()))
    training.refresh_from_db()
    return training


def test_a_file_of_the_last_client_with_one_is_a_run_of_ours(alice: User) -> None:
    create_ready_version(alice)
    row = created(
        alice,
        name="sort",
        learning_rate=2e-3,
        lora_alpha=16,
        max_tokens=8,
        temperature=0.9,
        enable_thinking=False,
        eval={"environments": [{"id": "alice/tiny-env", "num_examples": 5}], "interval": 2, "skip_first_step": True},
        val={"num_examples": 4, "interval": 1},
        pre_batch_filters=[],
        checkpoints={"interval": 1, "keep_cloud": -1},
        adapters={"interval": 0, "keep_last": 2},
    )
    config = row.config
    assert (row.owner, row.name, row.state, config["model"]) == (alice.owner, "sort", "queued", "alice/base")
    assert config["sampling"] | {"max_tokens": 8, "temperature": 0.9, "enable_thinking": False} == config["sampling"]
    assert (config["env"][0]["args"], config["eval"]["env"][0]["num_examples"]) == ({"length": 4}, 5)
    assert (config["eval"]["interval"], config["eval"]["skip_first_step"]) == (2, True)
    assert (config["pre_batch_filters"], config["val"]["num_examples"], config["lora_alpha"]) == ([], 4, 16)


def test_a_new_run_tells_what_the_client_must_read(alice: User) -> None:
    create_ready_version(alice)
    shown = PrimeClient(alice).done("post", "rft/runs", payload(compute_size="M"))["run"]
    assert (shown["status"], shown["queueReason"]) == ("QUEUED", "no train worker is online")
    assert (shown["baseModel"], shown["maxSteps"], shown["batchSize"]) == ("alice/base", 3, 8)
    assert shown["environments"] == [{"slug": "alice/tiny-env", "id": "alice/tiny-env", "version": "0.1.0"}]
    assert {"userId", "createdAt", "updatedAt", "rolloutsPerExample"} <= shown.keys()
    assert shown["notice"].startswith("infrastructure has no effect")
    assert "in [ trainer ] say" in shown["notice"]  # [trainer] would be a tag of the client's terminal library


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cluster_name": "x"}, "cluster_name: is not for this hub: there is no cluster to name"),
        ({"tailscale": {"enabled": True}}, "tailscale: is not for this hub: a run joins no network"),
        ({"run_config": {"a": 1}}, "run_config: is not for this hub"),
        ({"loss": "sft", "teacher": {"model": {"name": "t"}}}, 'loss: "sft" requires a teacher model'),
        ({"teacher": {"model": {"name": "t"}}}, "teacher: is not for this hub"),
        ({"monitoring": {"wandb": {"project": "p"}}}, "[ wandb ] requires the secret WANDB_API_KEY"),
        ({"max_tokens": "many"}, "sampling.max_tokens"),
        ({"environments": []}, "env"),
        ({"environments": [{"id": "alice/other"}]}, "no environment alice/other"),
        ({"model": {"name": "alice/other"}}, "no model alice/other"),
        ({"odd": 1}, "odd: is unknown"),
    ],
)
def test_what_cannot_be_had_here_is_refused_with_the_reason(alice: User, given: dict[str, Any], told: str) -> None:
    create_ready_version(alice)
    assert told in refused(alice, **given)


def test_values_of_secrets_must_be_stored_already_and_are_not_repeated(alice: User) -> None:
    create_ready_version(alice)
    told = refused(alice, secrets=[{"key": "TOOL_KEY", "value": "hush-hush"}])
    assert told.startswith("the values of TOOL_KEY are not those that alice has stored; store them once, with `prime")
    assert "hush" not in told
    set_secret(owner=alice.owner, name="TOOL_KEY", value="hush-hush", user=alice)
    row = created(alice, secrets=[{"key": "TOOL_KEY", "value": "hush-hush"}])
    assert (row.config["env"][0]["secrets"], row.config["secrets"]) == (["TOOL_KEY"], [])


def test_a_run_is_granted_the_stored_secrets_that_its_environments_need(alice: User) -> None:
    create_needing_version(Need(kind=NeedKind.SECRET, name="TOOL_KEY"), user=alice)
    assert "needs secret TOOL_KEY" in refused(alice)
    for name in ("TOOL_KEY", "OTHER"):
        set_secret(owner=alice.owner, name=name, value="hush-hush", user=alice)
    row = created(alice)
    assert (row.config["env"][0]["secrets"], row.config["secrets"], row.encrypted_env) == (["TOOL_KEY"], [], "")


def test_an_own_environment_is_given_what_its_checks_were_given(alice: User) -> None:
    version = create_ready_version(alice)
    settings = CheckSettings(judges={"*": "alice/base"})
    Version.objects.filter(pk=version.pk).update(check_settings=settings.model_dump(mode="json"))
    assert created(alice).config["env"][0]["judges"] == {"*": "alice/base"}


def test_metrics_go_to_weights_and_biases_with_the_stored_key(alice: User) -> None:
    create_ready_version(alice)
    set_secret(owner=alice.owner, name="WANDB_API_KEY", value="hush-hush", user=alice)
    row = created(alice, monitoring={"wandb": {"entity": "e", "project": "p"}})
    assert (row.config["secrets"], row.config["wandb"]["project"]) == (["WANDB_API_KEY"], "p")
    assert PrimeClient(alice).done("get", f"rft/runs/{row.pk}")["run"]["wandbProject"] == "p"


def _team(alice: User) -> Owner:
    create_ready_version(alice)
    return make_owner("lab", members=[alice])


def test_a_team_has_runs_of_its_own(alice: User) -> None:
    team, prime = _team(alice), PrimeClient(alice)
    row = created(alice, team_id="lab")
    assert row.owner == team
    assert prime.done("get", f"rft/runs/{row.pk}")["run"]["teamId"] == "lab"
    assert [run["id"] for run in prime.done("get", "rft/runs", team_id="lab")["runs"]] == [str(row.pk)]
    assert prime.done("get", "rft/runs")["runs"] == []
    assert PrimeClient(make_user("bob")).call("post", "rft/runs", payload(team_id="lab")).status_code == 404


def test_runs_are_listed_page_by_page(alice: User) -> None:
    prime, runs = PrimeClient(alice), [create_run(alice) for _ in range(3)]
    first = prime.done("get", "rft/runs", page=1, limit=2, mine="true")
    assert [run["id"] for run in first["runs"]] == [str(row.pk) for row in reversed(runs[1:])]
    assert (first["total"], first["page"], first["limit"], first["total_pages"]) == (3, 1, 2, 2)
    assert len(prime.done("get", "rft/runs", page=2, limit=2)["runs"]) == 1
    with CaptureQueriesContext(
        connection,
    ) as queries:
        prime.done("get", "rft/runs", page=1, limit=3)
    assert len(queries) <= MOST_QUERIES


def test_another_users_private_run_is_not_there(alice: User) -> None:
    row, bob = followed(alice), PrimeClient(make_user("bob"))
    parts = ("", "/logs", "/metrics", "/samples", "/progress", "/distributions", "/checkpoints", "/env-servers")
    assert {bob.call("get", f"rft/runs/{row.pk}{part}").status_code for part in parts} == {404}
    assert {bob.call("put", f"rft/runs/{row.pk}/{verb}").status_code for verb in ("stop", "restart")} == {404}
    assert bob.call("delete", f"rft/runs/{row.pk}").status_code == 404


def test_a_failed_run_says_why(alice: User) -> None:
    row = create_run(alice)
    failure = {"kind": "environment", "code": "x", "message": "[env] is broken", "hint": "mend it"}
    Run.objects.filter(pk=row.run_id).update(failure=failure)
    TrainingRun.objects.filter(pk=row.pk).update(state=RunState.FAILED.value)
    shown = PrimeClient(alice).done("get", f"rft/runs/{row.pk}")["run"]
    assert (shown["status"], shown["errorMessage"]) == ("FAILED", "[ env ] is broken. mend it")


def test_metrics_are_of_the_steps_that_were_asked_for(alice: User) -> None:
    row, prime = followed(alice), PrimeClient(alice)
    assert [one["step"] for one in prime.done("get", f"rft/runs/{row.pk}/metrics")["metrics"]] == [1, 2]
    assert [one["step"] for one in prime.done("get", f"rft/runs/{row.pk}/metrics", min_step=2)["metrics"]] == [2]
    found = prime.done("get", f"rft/runs/{row.pk}/metrics", max_step=1, limit=5)["metrics"]
    assert [(one["step"], one["reward_mean"]) for one in found] == [(1, 0.5)]


def test_rollouts_of_a_step_are_shown_without_their_tokens(alice: User) -> None:
    row, prime = followed(alice), PrimeClient(alice)
    page = prime.done("get", f"rft/runs/{row.pk}/samples", step=1, page=2, limit=1)
    (sample,) = page["samples"]
    assert (page["run_id"], page["total"], page["total_pages"]) == (str(row.pk), 2, 2)
    assert (sample["step"], sample["sample_id"], sample["reward"], sample["advantage"]) == (1, 1, 0.0, 0.5)
    assert sample["prompt"]
    assert "training" not in sample
    assert prime.call("get", f"rft/runs/{row.pk}/samples", step=9).status_code == 404


def test_progress_names_the_steps_with_rollouts(alice: User) -> None:
    shown = PrimeClient(alice).done("get", f"rft/runs/{followed(alice).pk}/progress")
    assert (shown["latestStep"], shown["stepsWithSamples"], shown["stepsWithDistributions"]) == (2, [1], [1, 2])
    assert shown["lastUpdatedAt"]


def test_distributions_are_the_histograms_of_a_step(alice: User) -> None:
    row, prime = create_run(alice), PrimeClient(alice)
    assert prime.done("get", f"rft/runs/{row.pk}/distributions") == {"bins": [], "step": None}
    start(row)
    report(row, step_report(1, rewards=(), advantages=Histogram(low=-1, high=1, counts=(3, 4))))
    found = prime.done("get", f"rft/runs/{row.pk}/distributions", type="advantages")
    assert found["bins"] == [
        {"type": "advantages", "start": -1.0, "end": 0.0, "count": 3},
        {"type": "advantages", "start": 0.0, "end": 1.0, "count": 4},
    ]
    assert prime.call("get", f"rft/runs/{row.pk}/distributions", type="odd").status_code == 422


def test_checkpoints_are_listed_newest_first(alice: User) -> None:
    row, prime = followed(alice), PrimeClient(alice)
    for step in (1, 2):
        report(row, checkpoint_report(step))
    found = prime.done("get", f"rft/runs/{row.pk}/checkpoints")["checkpoints"]
    assert [(one["step"], one["status"], one["rftRunId"]) for one in found] == [
        (2, "READY", str(row.pk)),
        (1, "READY", str(row.pk)),
    ]
    assert prime.done("get", f"rft/runs/{row.pk}/checkpoints", status_filter="FAILED")["checkpoints"] == []


def test_the_log_ends_with_the_lines_that_were_asked_for(alice: User) -> None:
    row, prime = followed(alice), PrimeClient(alice)
    run = Run.objects.get(pk=row.run_id)
    append_log(run=run, offset=0, text="step 1\nlearner: [/inst] warm\ntiny-env: hello\nstep 2\n")
    logs = f"rft/runs/{row.pk}/logs"
    assert prime.done("get", logs, tail_lines=3)["logs"] == "learner: [ /inst ] warm\ntiny-env: hello\nstep 2"
    assert prime.done("get", logs, search="STEP")["logs"] == "step 1\nstep 2"
    assert prime.done("get", logs, component="trainer")["logs"] == "learner: [ /inst ] warm"
    assert prime.done("get", logs, component="env-server", env_name="tiny-env")["logs"] == "tiny-env: hello"
    assert prime.done("get", f"rft/runs/{row.pk}/env-server-logs", env_name="tiny-env")["logs"] == "tiny-env: hello"
    assert prime.call("get", f"rft/runs/{row.pk}/env-server-logs", env_name="tiny-env", env_index=1).status_code == 404
    for odd in (
        {"level": "odd"},
        {"search": "s", "regex": True},
        {"component": "odd"},
        {"component": "env-server", "env_name": "odd"},
    ):
        assert prime.call("get", logs, **odd).status_code == 422
    (server,) = prime.done("get", f"rft/runs/{row.pk}/env-servers")["env_servers"]
    assert (server["env_name"], server["status"]) == ("tiny-env", "QUEUED")


def test_lines_of_a_log_are_of_a_level(alice: User) -> None:
    row, prime = followed(alice), PrimeClient(alice)
    text = "step 1\nlearner: 2026-11-29 02:41 ERROR broken\nlearner: Traceback:\nlearner: 02:42 INFO mended\nstep 2\n"
    append_log(run=Run.objects.get(pk=row.run_id), offset=0, text=text)
    logs = f"rft/runs/{row.pk}/logs"
    found = prime.done("get", logs, level="ERROR")["logs"]
    assert found == "learner: 2026-11-29 02:41 ERROR broken\nlearner: Traceback:"
    assert prime.done("get", logs, level="INFO")["logs"] == "step 1\nlearner: 02:42 INFO mended\nstep 2"
    assert prime.done("get", logs, level="ERROR", search="trace")["logs"] == "learner: Traceback:"


def test_a_log_is_whole_or_is_not_cut_by_time(alice: User) -> None:
    row, prime = followed(alice), PrimeClient(alice)
    append_log(run=Run.objects.get(pk=row.run_id), offset=0, text="step 1\n")
    Run.objects.filter(pk=row.run_id).update(started_at=timezone.now() - timedelta(hours=2))
    logs = f"rft/runs/{row.pk}/logs"
    for seconds in (86_400, 8000):
        assert prime.done("get", logs, since_seconds=seconds, tail_lines=5000)["logs"] == "step 1"
    assert "--tail N" in prime.call("get", logs, since_seconds=3600).json()["detail"]


def test_the_log_of_a_public_run_is_for_members(alice: User) -> None:
    row = followed(alice)
    TrainingRun.objects.filter(pk=row.pk).update(visibility="public")
    bob = PrimeClient(make_user("bob"))
    assert bob.call("get", f"rft/runs/{row.pk}").status_code == 200
    assert bob.call("get", f"rft/runs/{row.pk}/logs").status_code == 403
    assert bob.call("put", f"rft/runs/{row.pk}/stop").status_code == 403


def test_a_run_is_stopped_restarted_and_deleted(alice: User) -> None:
    create_ready_version(alice)
    row, prime = created(alice), PrimeClient(alice)
    assert prime.call("put", f"rft/runs/{row.pk}/restart").status_code == 409
    assert prime.call("delete", f"rft/runs/{row.pk}").status_code == 409
    assert prime.done("put", f"rft/runs/{row.pk}/stop")["run"]["status"] == "STOPPED"
    assert prime.done("put", f"rft/runs/{row.pk}/restart")["run"]["status"] == "QUEUED"
    prime.done("put", f"rft/runs/{row.pk}/stop")
    prime.done("delete", f"rft/runs/{row.pk}")
    assert not TrainingRun.objects.exists()


def test_models_are_those_that_can_be_trained(alice: User) -> None:
    (model,) = PrimeClient(alice).done("get", "rft/models")["models"]
    assert (model["name"], model["atCapacity"], model["trainingPricePerMtok"]) == ("alice/base", True, 0)


def test_a_configuration_of_prime_rl_is_told_where_to_go(alice: User) -> None:
    refused = PrimeClient(alice).call("post", "training/runs", {"config": {"trainer": {}}})
    assert refused.status_code == 404
    assert "`hub train run FILE.toml`, or `prime train FILE.toml` of prime 0.6.35" in refused.json()["detail"]


def test_the_address_that_the_client_shows_leads_to_the_page(alice: User) -> None:
    row = create_run(alice)
    response = Client().get(f"/prime/dashboard/training/{row.pk}")
    assert (response.status_code, response["Location"]) == (302, f"/training/{row.pk}")


def test_a_version_that_is_still_being_built_is_waited_for(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    version = push_version(alice)
    monkeypatch.setattr("hub.compat.building._PATIENCE_S", 0.2)
    monkeypatch.setattr("hub.compat.building._POLL_S", 0.05)
    assert "still being built" in refused(alice)
    ready = Version.objects.filter(pk=create_ready_version(make_user("carol")).pk).values("state", "lock").get()
    building = Version.objects.filter(pk=version.pk)
    monkeypatch.setattr("hub.compat.building.time.sleep", lambda _: building.update(**ready))
    assert created(alice).state == "queued"
