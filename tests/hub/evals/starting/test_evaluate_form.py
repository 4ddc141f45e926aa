"""The texts of the form that starts an evaluation, its configuration, and the command that does the same."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import typer
from envhub.cli.main import app
from envhub.protocol.evals.command_line import command_of
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.evals.replays import Replay

from hub.core.errors import Invalid
from hub.evals.starting.form import read_form, texts_of
from hub.registry.argument_inputs import argument_inputs

INPUTS = argument_inputs(
    {
        "level": {"annotation": "int", "default": 1},
        "path": {"annotation": "str"},
        "taskset": {"annotation": "table", "fields": {"hard": {"annotation": "bool", "default": False}}},
    }
)
FULL = EvaluationConfig(
    environment="ada/sums@1.0",
    model="hub/tiny",
    num_examples=-1,
    rollouts_per_example=2,
    env_args={"level": 3, "path": "it's", "extra": [1]},
    taskset={"hard": True},
    harness={"turns": 2},
    sampling={"temperature": 0.5, "max_tokens": 9, "top_p": 0.1},
    concurrency=3,
    max_retries=0,
    timeout_s=60.0,
    state_columns=("a", "b"),
    seed=-4,
    split="train",
    name="a name",
    judges={"*": "hub/tiny"},
    secrets=("TOKEN",),
    allow_hosts=("h.example:443",),
)


def test_a_configuration_comes_back_from_the_form_as_it_went_in() -> None:
    assert read_form(texts_of(FULL, INPUTS), INPUTS, FULL.environment) == FULL


def test_a_replay_goes_through_the_form_and_the_command_line() -> None:
    replay = Replay(evaluation="ab", example=3, rollout=1, calls=2)
    config = FULL.model_copy(update={"replay": replay})
    assert read_form(texts_of(config, INPUTS), INPUTS, FULL.environment) == config
    words = shlex.split(command_of(config))
    assert words[words.index("--replay") + 1] == "ab/3/1/2"
    assert "-n" not in words


def test_the_defaults_of_arguments_are_not_given() -> None:
    texts = texts_of(EvaluationConfig(environment="a/b", model="m/n"), INPUTS) | {"argument.path": "x"}
    assert read_form(texts, INPUTS, "a/b").env_args == {"path": "x"}


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"num_examples": "many"}, "num_examples"),
        ({"temperature": "-1"}, "temperature"),
        ({"temperature": "nan"}, "temperature"),
        ({"max_tokens": "0"}, "max_tokens"),
        ({"argument.path": ""}, "argument.path"),
        ({"argument.level": "high"}, "argument.level"),
        ({"sampling": "{"}, "sampling"),
        ({"sampling": '{"temperature": 1}', "temperature": "1"}, "sampling"),
        ({"harness": "[1]"}, "harness"),
        ({"model": " "}, "model"),
        ({"visibility": "secret"}, "visibility"),
        ({"seed": "9" * 5000}, "seed"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(typed: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_form(texts_of(FULL, INPUTS) | typed, INPUTS, FULL.environment)
    assert set(caught.value.fields) == {field}


@pytest.mark.parametrize("config", [FULL, EvaluationConfig(environment="a/b", model="m/n")])
def test_the_command_means_the_same_configuration(config: EvaluationConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed(command_of(config), monkeypatch) == config


def parsed(line: str, monkeypatch: pytest.MonkeyPatch) -> EvaluationConfig:
    """What `hub eval run` would send."""
    found: dict[str, Any] = {}

    def keep(_: object, target: str, fields: dict[str, Any]) -> list[EvaluationConfig]:
        found.update(fields, environment=target)
        return []

    monkeypatch.setattr("envhub.cli.evaluations.run.configurations", keep)
    monkeypatch.setattr("envhub.cli.evaluations.run.start_all", lambda *_, **__: None)
    words = shlex.split(line)
    assert words[0] == "hub"
    typer.main.get_command(app).main(words[1:], standalone_mode=False)
    return EvaluationConfig.model_validate(found)
