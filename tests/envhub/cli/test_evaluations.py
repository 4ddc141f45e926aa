from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from django.utils import timezone
from envhub.cli.terminal.session import Session
from envhub.protocol.evals.evaluations import EvaluationView
from envhub.protocol.evals.rollouts import RolloutFailure, RolloutRecord
from envhub.protocol.runs import Failure, FailureKind, FinishRequest, RunState

from hub.evals.models import Evaluation, RolloutIndex
from hub.runs.services import finish_run
from tests.envhub.cli.conftest import Cli, MakeCli
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted, make_failure, make_record, start, store
from tests.factories.registry import create_ready_version

SAVED = Path(__file__).parent.parent / "packaging" / "saved"


@pytest.fixture
def pushed(cli: Cli) -> str:
    """The id of an evaluation made from saved results."""
    create_ready_version(cli.user)
    return str(cli.json("eval", "push", str(SAVED / "results-0.1.14"))["evaluation"]["id"])


def test_saved_results_are_pushed_with_their_statistics(cli: Cli, pushed: str) -> None:
    view = cli.json("eval", "show", pushed)
    assert (view["state"], view["source"], view["environment"]) == ("succeeded", "pushed", "alice/tiny-env")
    assert view["summary"]["scored"] == 6
    assert view["summary"]["reward"]["mean"] == pytest.approx(1 / 3)
    shown = cli("eval", "show", pushed).stdout
    assert "0.3333" in shown
    assert "self-reported" in shown
    assert "self-reported" in cli("eval", "list").stdout


def test_a_summary_says_how_it_was_measured(cli: Cli) -> None:
    found = create_hosted(cli.user, sampling={"temperature": 0.2})
    assert "sampling temperature=0.2" in cli("eval", "show", str(found.pk)).stdout


def test_a_rollout_is_replayed_as_it_was_evaluated_but_for_what_is_given(cli: Cli) -> None:
    before = create_hosted(cli.user, sampling={"temperature": 0.2, "top_p": 0.9}, env_args={"size": 4})
    start(before)
    store(before, [make_record(1, 0)])
    told = ("eval", "replay", str(before.pk), "1", "0", "--calls")
    view = cli.json(*told, "1", "-r", "2", "-t", "64", "--no-wait")
    assert view["config"]["sampling"] == {"temperature": 0.2, "top_p": 0.9, "max_tokens": 64}
    assert (view["config"]["env_args"], view["config"]["rollouts_per_example"]) == ({"size": 4}, 2)
    assert view["config"]["replay"] == {"evaluation": str(before.pk), "example": 1, "rollout": 0, "calls": 1}
    assert "has 1 answered model calls, not 2" in cli(*told, "2", code=1).stderr


def test_the_same_results_again_are_no_duplicates(cli: Cli, pushed: str) -> None:
    again = cli.json("eval", "push", str(SAVED / "results-0.1.14"))
    assert again["evaluation"]["id"] == pushed
    assert (Evaluation.objects.count(), RolloutIndex.objects.count()) == (1, 6)


@pytest.mark.parametrize("other", [("--model", "another"), ("--environment", "alice/other-env")])
def test_results_that_are_there_under_another_name_are_not_called_unchanged(
    cli: Cli, pushed: str, other: tuple[str, str]
) -> None:
    create_ready_version(cli.user, "other-env")
    refused = cli("eval", "push", str(SAVED / "results-0.1.14"), *other, code=2)
    assert f"hub eval delete {pushed}" in refused.stderr


def test_an_interrupted_push_goes_on_where_it_was(cli: Cli, pushed: str) -> None:
    RolloutIndex.objects.all().delete()
    Evaluation.objects.update(state="running")
    cli("eval", "push", str(SAVED / "results-0.1.14"))
    assert (Evaluation.objects.count(), RolloutIndex.objects.count()) == (1, 6)


def test_traces_of_the_current_generation_are_pushed(cli: Cli) -> None:
    create_ready_version(cli.user, "count-words")
    view = cli.json("eval", "push", str(SAVED / "traces-0.4.0"))["evaluation"]
    assert view["summary"]["scored"] == 4


def test_failed_rollouts_are_coverage_not_zero(cli: Cli) -> None:
    create_ready_version(cli.user)
    summary = cli.json("eval", "push", str(SAVED / "results-0.1.14-failed"))["evaluation"]["summary"]
    assert (summary["scored"], summary["reward"]) == (0, None)
    assert summary["outcomes"]["infrastructure"] == 2


def test_a_summary_ends_with_the_reasons_of_failures(cli: Cli) -> None:
    create_ready_version(cli.user)
    shown = cli("eval", "push", str(SAVED / "results-0.1.14-failed"))
    assert "infrastructure: " in shown.stderr, shown.output


def test_an_evaluation_that_failed_says_why(cli: Cli) -> None:
    evaluation = create_hosted(cli.user)
    start(evaluation)
    failure = Failure(kind=FailureKind.ENVIRONMENT, code="no_examples", message="it has no examples", hint="Add some.")
    finish_run(run=evaluation.run, request=FinishRequest(state=RunState.FAILED, failure=failure), now=timezone.now())
    shown = cli("eval", "show", str(evaluation.pk)).stdout
    assert "it has no examples (environment, no_examples)" in shown
    assert "Add some." in shown


def test_fewer_examples_than_asked_for_are_said(cli: Cli) -> None:
    evaluation = create_hosted(cli.user, num_examples=50, rollouts_per_example=2)
    start(evaluation)
    Evaluation.objects.update(planned=6)
    finish_run(run=evaluation.run, request=FinishRequest(state=RunState.SUCCEEDED), now=timezone.now())
    assert "has 3 examples, not 50" in cli("eval", "show", str(evaluation.pk)).stderr


def test_results_of_an_unknown_environment_are_refused(cli: Cli) -> None:
    assert "create it with `hub push FOLDER`" in cli("eval", "push", str(SAVED / "results-0.1.14"), code=2).stderr


def test_a_torn_file_is_pushed_with_a_warning(cli: Cli, tmp_path: Path) -> None:
    create_ready_version(cli.user)
    directory = shutil.copytree(SAVED / "results-0.1.14", tmp_path / "run")
    text = (directory / "results.jsonl").read_text()
    (directory / "results.jsonl").write_text(text[:-40])
    result = cli("eval", "push", str(directory))
    assert "torn" in result.stderr
    assert RolloutIndex.objects.count() == 5


def test_pull_writes_what_verifiers_writes(cli: Cli, pushed: str) -> None:
    found = cli.json("eval", "pull", f"http://127.0.0.1:8000/evaluations/{pushed}", "out")
    assert found["rollouts"] == 6
    rows = [json.loads(line) for line in Path("out/results.jsonl").read_text().splitlines()]
    original = [json.loads(line) for line in (SAVED / "results-0.1.14/results.jsonl").read_text().splitlines()]
    keys = ("example_id", "prompt", "completion", "answer", "reward", "error", "metrics", "stop_condition")
    assert [[row[key] for key in keys] for row in rows] == [[row[key] for key in keys] for row in original]
    assert json.loads(Path("out/metadata.json").read_text())["env_id"] == "tiny-env"


def test_pull_writes_the_rollouts_that_count_whatever_else_their_segments_hold(cli: Cli) -> None:
    evaluation = create_hosted(cli.user)
    store(evaluation, [make_record(0, 0, 1.0), make_failure(0, 1)])
    store(evaluation, [make_record(0, 0, 0.0), make_record(0, 1, 0.5)])  # a group is run again as a whole
    cli("eval", "pull", str(evaluation.pk), "out")
    rows = [json.loads(line) for line in Path("out/results.jsonl").read_text().splitlines()]
    assert [row["reward"] for row in rows] == [1.0, 0.5]


def test_rollouts_are_listed_filtered_and_shown(cli: Cli, pushed: str) -> None:
    assert len(cli.json("eval", "rollouts", pushed)) == 6
    assert {row["example"] for row in cli.json("eval", "rollouts", pushed, "--min-reward", "0.5")} == {0}
    assert "Reverse: abc" in cli("eval", "rollouts", pushed, "0", "0").stdout


def test_exports_are_written_by_file_name(cli: Cli, pushed: str) -> None:
    cli("eval", "export", pushed, "all.jsonl", "--min-reward", "0.5")
    assert len(Path("all.jsonl").read_text().splitlines()) == 2
    cli("eval", "export", f"/evaluations/{pushed}", "all.parquet")
    assert Path("all.parquet").read_bytes()[:4] == b"PAR1"


def test_an_ending_that_tells_no_format_is_refused(cli: Cli, pushed: str) -> None:
    refused = cli("eval", "export", pushed, "all.csv", code=2).stderr
    assert ".csv is not the ending of a known format" in refused
    assert ".parquet (parquet) or .jsonl (jsonl)" in refused
    cli("eval", "export", pushed, "all.csv", "--format", "jsonl")
    assert len(Path("all.csv").read_text().splitlines()) == 6


def test_a_pushed_evaluation_is_private_to_its_owner(cli: Cli, pushed: str, make_cli: MakeCli) -> None:
    bob = make_cli(make_user("bob"))
    bob("eval", "show", pushed, code=1)
    assert bob.json("eval", "list") == []
    bob("eval", "delete", pushed, "--yes", code=1)


def test_an_evaluation_is_shared_and_hidden_again(cli: Cli, pushed: str, make_cli: MakeCli) -> None:
    bob = make_cli(make_user("bob"))
    assert "public" in cli("eval", "set", pushed, "--visibility", "public").stdout
    assert bob.json("eval", "show", pushed)["id"] == pushed
    bob("eval", "set", pushed, "--visibility", "private", code=1)
    cli("eval", "set", pushed, "--visibility", "private")
    bob("eval", "show", pushed, code=1)


def test_an_evaluation_is_deleted(cli: Cli, pushed: str) -> None:
    cli("eval", "delete", pushed, "--yes")
    cli("eval", "show", pushed, code=1)


def test_a_hosted_evaluation_is_queued_from_flags(cli: Cli) -> None:
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    view = cli.json(
        *("eval", "run", "tiny-env", "-m", "alice/stub", "-n", "2", "-r", "4", "--no-wait", "--seed", "7"),
        *("--env-args", '{"num_examples": 2}', "--sampling", '{"temperature": 0}', "--state-columns", "a,b"),
    )
    config = view["config"]
    assert (config["num_examples"], config["rollouts_per_example"], config["seed"]) == (2, 4, 7)
    assert (config["env_args"], config["sampling"]) == ({"num_examples": 2}, {"temperature": 0})
    assert config["state_columns"] == ["a", "b"]
    assert cli.json("run", "show", view["run_id"])["kind"] == "eval"
    assert cli.json("eval", "cancel", view["id"])["state"] == "cancelled"
    assert cli.json("eval", "list", "alice/tiny-env")[0]["state"] == "cancelled"


def test_sampling_has_flags_of_its_own_which_join_the_table_and_the_file(cli: Cli) -> None:
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    Path("one.toml").write_text('max_tokens = 9\n[[eval]]\nenv_id = "tiny-env"\n')
    flags = ("-m", "alice/stub", "-T", "0.5", "-S", '{"top_p": 1}', "--no-wait")
    (of_file,) = cli.json("eval", "run", "one.toml", *flags)
    assert of_file["config"]["sampling"] == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 1,
    }
    view = cli.json("eval", "run", "tiny-env", *flags, "-t", "7")
    assert view["config"]["sampling"] == {"max_tokens": 7, "temperature": 0.5, "top_p": 1}


def test_a_sampling_key_that_is_given_twice_is_named(cli: Cli) -> None:
    refused = cli("eval", "run", "tiny-env", "-m", "m", "-t", "7", "-S", '{"max_tokens": 8}', code=2).stderr
    assert "max_tokens" in refused
    assert "--max-tokens" in refused


def test_a_bare_model_is_the_callers_own(cli: Cli) -> None:
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    view = cli.json("eval", "run", "tiny-env", "-m", "stub", "--judge", "gpt=stub", "--no-wait")
    assert (view["model"], view["config"]["judges"]) == ("alice/stub", {"gpt": "alice/stub"})


@pytest.mark.parametrize(
    ("model", "command"),
    [
        ("openai/gpt-5-nano", "`hub model add gpt-5-nano --base-url URL -m openai/gpt-5-nano`"),
        ("gpt", "`hub model add gpt --base-url URL`"),
    ],
)
def test_an_unknown_model_comes_with_the_command_that_registers_it(cli: Cli, model: str, command: str) -> None:
    create_ready_version(cli.user)
    refused = cli("eval", "run", "tiny-env", "-m", model, "--no-wait", code=1).stderr
    assert command in refused
    assert "hub model list" in refused


def test_what_is_missing_of_an_evaluation_is_queued_again(cli: Cli) -> None:
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    begun = cli.json("eval", "run", "tiny-env", "-m", "alice/stub", "-n", "2", "--max-retries", "0", "--no-wait")
    cli("eval", "cancel", begun["id"])
    resumed = cli.json("eval", "resume", begun["id"], "--no-wait")
    assert (resumed["id"], resumed["state"], resumed["config"]["max_retries"]) == (begun["id"], "queued", 0)
    assert resumed["run_id"] != begun["run_id"]
    assert "error" in cli("eval", "resume", begun["id"], "--no-wait", code=1).stderr  # it waits already


def test_a_file_starts_several_evaluations_and_flags_win(cli: Cli) -> None:
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    text = 'model = "alice/stub"\n[[eval]]\nenv_id = "tiny-env"\n[[eval]]\nenv_id = "alice/tiny-env"\nnum_examples = 3'
    Path("both.toml").write_text(text)
    views = cli.json("eval", "run", "both.toml", "-r", "1", "--no-wait")
    assert [view["config"]["num_examples"] for view in views] == [5, 3]
    assert [view["config"]["rollouts_per_example"] for view in views] == [1, 1]


SECOND = 'model = "alice/stub"\n[[eval]]\nenv_id = "tiny-env"\n[[eval]]\nenv_id = "{}"\nmodel = "{}"\n'


@pytest.mark.parametrize(
    ("environment", "model", "words"),
    [("absent", "stub", "absent"), ("tiny-env", "absent", "`hub model add absent --base-url URL`")],
)
def test_of_a_file_with_a_name_that_is_not_there_nothing_starts(
    cli: Cli, environment: str, model: str, words: str
) -> None:
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    Path("both.toml").write_text(SECOND.format(environment, model))
    assert words in cli("eval", "run", "both.toml", "--no-wait", code=1).stderr
    assert not Evaluation.objects.exists()


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_what_a_file_has_queued_before_a_failure_is_told(cli: Cli, flags: tuple[str, ...]) -> None:
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    Path("both.toml").write_text(SECOND.format("tiny-env", "stub") + 'secrets = ["ABSENT"]\n')
    failed = cli("eval", "run", "both.toml", "--no-wait", *flags, code=1).stderr
    assert f"Queued already: `hub eval cancel {Evaluation.objects.get().pk}`" in failed


@pytest.mark.parametrize(
    "arguments", [["tiny-env"], ["tiny-env", "-m", "x", "--env-args", "[1]"], ["tiny-env", "-m", "x", "-n", "-5"]]
)
def test_wrong_usage_exits_2(cli: Cli, arguments: list[str]) -> None:
    create_ready_version(cli.user)
    cli("eval", "run", *arguments, code=2)


@pytest.mark.parametrize("index", ["0.0", "-1", "1e3", "first"])
def test_an_example_is_named_by_its_index_alone(cli: Cli, pushed: str, index: str) -> None:
    assert "is not an index" in cli("eval", "rollouts", pushed, "--", index, code=2).stderr


@pytest.mark.parametrize("option", [("--outcome", "x"), ("--min-reward", "nan")])
def test_a_filter_that_makes_no_sense_is_refused(cli: Cli, pushed: str, option: tuple[str, str]) -> None:
    assert "error" in cli("eval", "rollouts", pushed, *option, code=1).stderr


def test_a_failure_is_told_whole_where_nothing_is_too_narrow(cli: Cli) -> None:
    evaluation = create_hosted(cli.user)
    start(evaluation)
    message = "the answer has no number " * 8
    failure = RolloutFailure(kind=FailureKind.ENVIRONMENT, type="ValueError", message=message)
    store(evaluation, [make_failure(failure=failure)])
    assert message.strip() in cli("eval", "rollouts", str(evaluation.pk)).stdout


def test_rollouts_are_listed_by_example_unless_told_otherwise(cli: Cli, pushed: str) -> None:
    places = [(row["example"], row["rollout"]) for row in cli.json("eval", "rollouts", pushed)]
    assert places == sorted(places)
    assert "not one of" in cli("eval", "rollouts", pushed, "--sort", "x", code=2).stderr


def test_evaluations_of_ones_own_environment_are_listed_by_its_name(cli: Cli, pushed: str) -> None:
    assert [item["id"] for item in cli.json("eval", "list", "tiny-env")] == [pushed]


def test_an_export_into_a_directory_that_is_not_there_names_it(cli: Cli, pushed: str) -> None:
    assert "no directory nowhere" in cli("eval", "export", pushed, "nowhere/all.parquet", code=2).stderr


@pytest.mark.parametrize("command", ["run", "resume"])
@pytest.mark.parametrize(("record", "code"), [(make_record(0, 0), 0), (make_failure(0, 0), 1)])
def test_an_evaluation_that_scored_nothing_is_a_failed_command(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str, record: RolloutRecord, code: int
) -> None:
    def followed(session: Session, view: EvaluationView) -> EvaluationView:
        """As its worker would end it."""
        evaluation = Evaluation.objects.get(pk=view.id)
        store(evaluation, [record])
        Evaluation.objects.filter(pk=evaluation.pk).update(state="succeeded")
        return session.hub.evaluations.get(view.id)

    monkeypatch.setattr("envhub.cli.evaluations.run.follow", followed)
    monkeypatch.setattr("envhub.cli.evaluations.commands.follow", followed)
    create_ready_version(cli.user)
    create_endpoint(cli.user, "stub")
    told = ("eval", "run", "tiny-env", "-m", "stub", "-n", "1", "-r", "1")
    if command == "run":
        cli(*told, code=code)
        return
    begun = cli.json(*told, "--no-wait")
    cli("eval", "cancel", begun["id"])
    cli("eval", "resume", begun["id"], code=code)


def test_a_rollout_is_read_as_a_conversation(cli: Cli) -> None:
    evaluation = create_hosted(cli.user)
    start(evaluation)
    call = {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls -l"}'}}
    said = {"role": "assistant", "content": [{"type": "text", "text": "I look."}], "tool_calls": [call]}
    told = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
    store(evaluation, [make_record(completion=[said, told])])
    shown = cli("eval", "rollouts", str(evaluation.pk), "0", "0").stdout
    assert "1  assistant\nI look.\n-> bash: ls -l\n2  tool\na.py\n" in shown
