"""The commands of `hub train` and `hub deploy` against a fake hub; test_training_on_a_hub has the real one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from envhub.cli.main import app
from envhub.cli.terminal.session import Session
from envhub.cli.training.follow import step_line
from envhub.cli.training.rollouts import token_rows
from envhub.cli.training.summary import steps_line
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, TokenData, Turn
from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens, TokenTraining
from typer.testing import CliRunner, Result

from tests.fakes.training_hub import TrainingHub

TOML = 'model = "hub/tiny"\nenv_files = ["s.env"]\n[sampling]\nmax_tokens = 8\n[[env]]\nid = "reverse-text"\n'


RUN = "01a1ffe9-890d-7592-a1ad-ec58be13e981"


class Hub(TrainingHub):
    """The fake, whose one run goes by an id as hubs give them."""

    def _answer(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(path=request.url.path.replace(RUN, "t1"))
        return super()._answer(request)


@dataclass
class Trainer:
    """Runs `hub ...` against the fake, in an empty directory with a train.toml."""

    hub: TrainingHub = field(default_factory=Hub)

    def __call__(self, *arguments: str, code: int = 0) -> Result:
        environ = {"HUB_URL": "http://hub.test", "HUB_TOKEN": "hub_x"}
        session = Session(self.hub.transport, environ, Path("none.toml"))
        result = CliRunner().invoke(app, list(arguments), obj=session, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code).stdout)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("envhub.cli.training.follow.POLL_SECONDS", 0.0)
    Path("train.toml").write_text(TOML)
    Path("s.env").write_text("# mine\nexport TOOL_KEY='v 1'\n\nOTHER=2\n")
    return Trainer()


def test_a_run_is_submitted_as_written_with_the_values_of_its_env_files(hub: Trainer) -> None:
    hub("train", "run", "train.toml", "--no-wait")
    (request,) = hub.hub.requests
    assert (request.toml, request.env) == (TOML, {"TOOL_KEY": "v 1", "OTHER": "2"})


def test_files_of_windows_editors_are_read(hub: Trainer) -> None:
    for name in ("train.toml", "s.env"):
        path = Path(name)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().removeprefix(b"# mine\n").replace(b"\n", b"\r\n"))
    hub("train", "run", "train.toml", "--no-wait")
    (request,) = hub.hub.requests
    assert request.toml == TOML
    assert request.env == {"TOOL_KEY": "v 1", "OTHER": "2"}


def test_a_followed_run_prints_each_step_and_what_came_of_it(hub: Trainer) -> None:
    result = hub("train", "run", "train.toml")
    assert [f"step {step}/3" in result.stderr for step in (1, 2, 3)] == [True] * 3
    counts = "120 rollouts of 60 examples, split eval, 1 failed"
    assert f"evaluation eval-env at step 10: 0.5 ± 0.1 ({counts})" in result.stderr
    assert "failed <1%" in step_line(StepMetrics(step=1, failed_share=0.004), 3)
    assert "running: reward" not in result.stderr  # the steps' own lines say it
    assert "alice/sort" in result.stdout


def test_a_resumed_run_is_followed_from_where_it_is(hub: Trainer) -> None:
    hub.hub.steps, hub.hub.done = 12, 10
    result = hub("train", "resume", RUN)
    assert [f"step {step}/12" in result.stderr for step in range(9, 13)] == [False, False, True, True]
    assert "evaluation eval-env at step 10" not in result.stderr


def test_a_run_that_mastered_its_task_says_why_it_has_fewer_steps() -> None:
    view = TrainingHub(steps=5, done=5).view(RunState.SUCCEEDED)
    early = view.model_copy(update={"step": 3})
    assert [one.mastered for one in (view, early, early.model_copy(update={"state": RunState.RUNNING}))] == [
        False, True, False
    ]  # fmt: skip
    assert steps_line(early) == "3/5, then nothing was left to learn"


def test_a_failed_run_says_why_and_exits_1(hub: Trainer) -> None:
    hub.hub.end = RunState.FAILED
    result = hub("train", "run", "train.toml", code=1)
    assert "it broke" in result.stderr
    assert "mend it" in result.stderr


def test_a_wrong_file_exits_2_before_the_hub_is_asked(hub: Trainer) -> None:
    Path("train.toml").write_text(TOML + "ratoi = 1\n")
    result = hub("train", "run", "train.toml", code=2)
    assert "line 7, env[0].ratoi: is unknown. Did you mean 'ratio'?" in result.stderr
    assert hub.hub.requests == []


def test_check_predicts_needs_and_says_what_it_assumed(hub: Trainer) -> None:
    value = hub.json("train", "check", "train.toml")
    assert value["estimate"]["parameters"] == pytest.approx(426_000, rel=0.01)
    assert any("max_input_tokens" in text for text in value["estimate"]["assumptions"])
    assert "at most" in hub("train", "check", "train.toml").stdout


def test_check_reads_the_shape_from_a_config_json(hub: Trainer) -> None:
    shape = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128}
    Path("config.json").write_text(json.dumps({**shape, "vocab_size": 100}))
    value = hub.json("train", "check", "train.toml", "--model-config", "config.json")
    assert value["estimate"]["parameters"] == 2 * (64 * 16 * 16 + 3 * 64 * 128) + 2 * 100 * 64


def test_check_says_which_gpus_the_run_would_ask_for(hub: Trainer) -> None:
    text = Path("train.toml").read_text()
    assert hub.json("train", "check", "train.toml")["gpus"] == {"count": 0, "memory_mb": 0, "by_host": []}
    Path("large.toml").write_text(text.replace("hub/tiny", "Qwen/Qwen3-4B"))
    assert hub.json("train", "check", "large.toml")["gpus"]["count"] == 1
    assert "on one worker" in hub("train", "check", "large.toml").stdout


def test_check_says_how_a_run_of_several_hosts_is_placed(hub: Trainer) -> None:
    text = Path("train.toml").read_text() + "\n[trainer]\nhosts = 2\n"
    Path("small.toml").write_text(text)
    assert "on 2 hosts: 2 learner processes, 2 engines\n" in hub("train", "check", "small.toml").stdout
    wide = text.replace("hub/tiny", "Qwen/Qwen3-4B") + "train_gpus = 4\nengine_gpus = 4\n"
    Path("large.toml").write_text(wide)
    said = " ".join(hub("train", "check", "large.toml").stdout.split())
    assert "GB on 2 hosts of one worker's cluster" in said
    assert "on 2 hosts: 4 learner processes, 2 engines of 2 GPUs" in said


def test_init_writes_a_file_that_is_accepted_and_submits_it(hub: Trainer) -> None:
    hub("train", "init", "--env", "reverse-text", "--model", "hub/tiny", "--batch", "64", "--yes", "--no-wait")
    text = Path("configs/train/reverse-text.toml").read_text()
    assert "batch_size = 64 " in text
    assert hub.hub.requests[0].toml == text


@pytest.mark.parametrize(
    ("given", "written"), [("0.00025", "2.5e-4"), ("0.0015", "1.5e-3"), ("1e-4", "1e-4"), ("3.5e-5", "3.5e-5")]
)
def test_init_writes_the_learning_rate_that_it_was_given(hub: Trainer, given: str, written: str) -> None:
    asked = ("--env", "reverse-text", "--model", "hub/tiny", "--learning-rate", given)
    hub("train", "init", *asked, "--no-submit")
    assert f"learning_rate = {written}\n" in Path("configs/train/reverse-text.toml").read_text()


@pytest.mark.parametrize("option", ["--learning-rate", "--batch", "--steps"])
def test_init_leaves_no_file_that_no_run_takes(hub: Trainer, option: str) -> None:
    wrong = hub("train", "init", "--env", "reverse-text", "--model", "hub/tiny", option, "0", "--no-submit", code=2)
    assert "greater than" in wrong.stderr
    assert not Path("configs").exists()


def test_init_submits_for_a_team(hub: Trainer) -> None:
    asked = ("train", "init", "--env", "reverse-text", "--model", "hub/tiny", "--team", "acme")
    assert "hub train run configs/train/reverse-text.toml --team acme" in hub(*asked, "--no-submit").stdout
    hub(*asked, "--force", "--yes", "--no-wait")
    assert hub.hub.owners == ["acme"]


def test_init_overwrites_nothing_and_needs_a_model(hub: Trainer) -> None:
    hub("train", "init", "--env", "reverse-text", "--path", "train.toml", "--model", "m", code=2)
    assert "no model given" in hub("train", "init", "--env", "reverse-text", code=2).stderr


def test_metrics_show_the_course_of_the_reward(hub: Trainer) -> None:
    hub("train", "run", "train.toml")
    assert "reward ▁▅█ 0.75 (first 0.25)" in hub("train", "metrics", RUN).stdout
    assert [step["step"] for step in hub.json("train", "metrics", RUN, "--after", "1")] == [2, 3]


def test_a_rollout_is_shown_as_conversation_or_token_by_token(hub: Trainer) -> None:
    assert "reverse: cd" in hub("train", "rollouts", RUN, "0", "--step", "3").stdout
    first, second = hub.json("train", "rollouts", RUN, "0", "--step", "3", "--tokens")
    assert (first["text"], first["trained"], first["advantage"], first["ratio"]) == (
        "d",
        "yes",
        0.5,
        pytest.approx(1.4918, rel=1e-4),
    )
    assert (second["text"], second["trained"], second["version"]) == ("c", "", 2)


def test_a_call_without_an_answer_does_not_shift_what_training_made_of_the_others() -> None:
    call = Turn(index=0, protocol="chat", model="m", request={}, response={})
    tokens = TokenData(prompt_ids=(1,), completion_ids=(7, 8), logprobs=(-1.0, -2.0))
    notes = RolloutTokens(turns=(TokenTraining(), TokenTraining(trained=(True, True), advantages=(0.5, 0.5))))
    record = RolloutRecord(
        example=0,
        rollout=0,
        example_hash="0" * 64,
        outcome=Outcome.OK,
        turns=(call.model_copy(update={"status": 503}), call.model_copy(update={"tokens": tokens})),
        extras={TOKENS_KEY: notes.model_dump()},
    )
    assert [(turn, token, trained, advantage) for turn, token, _, trained, advantage, *_ in token_rows(record)] == [
        (1, 7, "yes", 0.5),
        (1, 8, "yes", 0.5),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("show", RUN),
        ("rollouts", RUN),
        ("checkpoints", RUN),
        ("metrics", RUN),
        ("stop", RUN),
        ("delete", RUN, "--yes"),
        ("export", RUN),
        ("resume", RUN, "--no-wait"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_works_for_people_and_for_programs(hub: Trainer, arguments: tuple[str, ...]) -> None:
    hub("train", *arguments)
    hub.json("train", *arguments)


def test_an_export_is_written_to_its_file(hub: Trainer) -> None:
    hub("train", "export", RUN, "-o", "out.jsonl")
    assert Path("out.jsonl").read_text() == '{"step": 1}\n'


def test_a_deployment_is_created_listed_and_deleted_by_its_models_name(hub: Trainer) -> None:
    assert "http://hub.test/inference/v1" in hub("deploy", "create", "sort").stdout
    assert [item["model"] for item in hub.json("deploy", "list")] == ["alice/sort"]
    assert "answers under way have 5 minutes" in hub("deploy", "delete", "alice/sort", "--yes").stdout
    assert hub.json("deploy", "list") == []
    assert "no deployment is called" in hub("deploy", "delete", "sort", code=2).stderr


def test_a_model_that_is_a_directory_must_be_one(hub: Trainer) -> None:
    Path("train.toml").write_text(TOML.replace("hub/tiny", "./nothing"))
    assert "no model directory" in hub("train", "run", "train.toml", code=2).stderr


def test_an_env_file_that_is_absent_or_broken_is_named(hub: Trainer) -> None:
    Path("s.env").write_text("A=1\nlower=2\n")
    assert "s.env, line 2" in hub("train", "check", "train.toml", code=2).stderr
    Path("s.env").unlink()
    assert "env_files names s.env, which is missing" in hub("train", "check", "train.toml").stderr
    assert "cannot read s.env" in hub("train", "run", "train.toml", code=2).stderr
