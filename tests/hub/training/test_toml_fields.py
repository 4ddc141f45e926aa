"""The fields beside a training file write into it and leave the rest as it was."""

from __future__ import annotations

import tomllib

import pytest
from django.template.loader import render_to_string
from envhub.protocol.training.toml import read_training_toml

from hub.core.errors import Invalid
from hub.registry.argument_inputs import argument_inputs
from hub.training.toml_fields import environment_of, texts_of, with_fields

INPUTS = argument_inputs(
    {
        "level": {"annotation": "int", "default": 1},
        "taskset": {"annotation": "table", "fields": {"hard": {"annotation": "bool", "default": False}}},
    }
)
FRESH = render_to_string("training/_new.toml", {"environment": "ada/sums", "model": "ada/tiny"})


def changed(text: str, **typed: str) -> str:
    """With these texts in the fields, as a browser sends all of them."""
    names = {"level": "argument.level", "hard": "argument.taskset.hard"}
    new = {names.get(name, name): value for name, value in typed.items()}
    made, errors = with_fields(text, texts_of(text, INPUTS) | new, INPUTS)
    assert errors == {}
    return made


def test_what_is_written_is_what_was_typed_and_comments_stay() -> None:
    made = changed(
        FRESH, batch_size="32", name="a run", temperature="0.7", level="4", hard="true", rank="", mode="full"
    )
    config = read_training_toml(made).config
    assert (config.batch_size, config.name, config.sampling.temperature) == (32, "a run", 0.7)
    assert (config.env[0].args, config.env[0].taskset) == ({"level": 4}, {"hard": True})
    assert (config.trainer.mode, "rank" in made) == ("full", False)
    assert "batch_size = 32             # rollouts of a step" in made
    assert texts_of(made, INPUTS)["argument.level"] == "4"


def test_fields_that_say_what_the_file_says_change_no_byte() -> None:
    assert changed(FRESH) == FRESH


def test_another_environment_is_evaluated_on_too() -> None:
    made = tomllib.loads(changed(FRESH, environment="bob/words"))
    assert [table["id"] for table in (*made["env"], *made["eval"]["env"])] == ["bob/words", "bob/words"]


def test_evaluations_come_and_go_with_their_interval() -> None:
    without = changed(FRESH, eval_interval="")
    assert "eval" not in tomllib.loads(without)
    again = tomllib.loads(changed(without, eval_interval="5"))["eval"]
    assert again == {"interval": 5, "env": [{"id": "ada/sums"}]}


def test_an_empty_file_becomes_a_run() -> None:
    config = read_training_toml(
        with_fields("", {"environment": "a/b", "model": "c/d", "max_tokens": "9"}, ())[0]
    ).config
    assert (config.env[0].id, config.model, config.sampling.max_tokens) == ("a/b", "c/d", 9)


@pytest.mark.parametrize(
    ("text", "typed", "field"),
    [
        (FRESH, {"rank": "many"}, "rank"),
        (FRESH, {"learning_rate": "nan"}, "learning_rate"),
        (FRESH, {"max_steps": "1" * 400}, "max_steps"),
        (FRESH, {"argument.level": "high"}, "argument.level"),
        ("env = 3\n", {"environment": "a/b"}, "environment"),
        ("sampling = 'x'\n", {"max_tokens": "4"}, "max_tokens"),
        ("env = [[1]]\n", {"environment": "a/b"}, "environment"),
    ],
)
def test_what_cannot_be_written_is_told_at_its_field(text: str, typed: dict[str, str], field: str) -> None:
    assert set(with_fields(text, typed, INPUTS)[1]) == {field}


def test_what_can_be_written_is_although_another_field_is_wrong() -> None:
    made, errors = with_fields(FRESH, {"rank": "many", "max_steps": "7"}, INPUTS)
    assert (tomllib.loads(made)["max_steps"], set(errors)) == (7, {"rank"})


def test_a_file_that_is_no_toml_is_left_alone() -> None:
    with pytest.raises(Invalid, match="not TOML"):
        with_fields("a = [", {"model": "a/b"}, INPUTS)


@pytest.mark.parametrize(
    ("text", "found"), [(FRESH, "ada/sums"), ("a = [", ""), ("env = 3", ""), ("[[env]]\nid = 4", "")]
)
def test_the_environment_of_any_text(text: str, found: str) -> None:
    assert environment_of(text) == found
