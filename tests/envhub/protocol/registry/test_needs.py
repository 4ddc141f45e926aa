"""Names of needs come out of hostile boxes and end in commands that people paste."""

from __future__ import annotations

import json
import subprocess

import pytest
from envhub.protocol.registry.needs import CheckSettings, Need, NeedKind, command_for, flag_for, flags_for, hint_for

HOSTILE = ("'; rm -rf ~; '", "$(id)", "`id`", "a b", '"', "--force", "-x", "a\\'b", "{name}{0}", "!!")


def words_of(command: str) -> list[str]:
    """What a shell makes of the arguments of `hub` in a command."""
    script = f'hub() {{ printf "%s\\0" "$@"; }}; {command}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split("\0")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_word_of_its_command_or_in_none(name: str) -> None:
    allowed = {name, f"{name}=OWNER/MODEL", json.dumps({name: "..."})}
    needs = [Need(kind=kind, name=name) for kind in NeedKind]
    commands = [command_for(need, "alice/env") for need in needs] + [f"hub {flag_for(need)}" for need in needs]
    found = [words_of(command) for command in commands if name in command or "--env-args" in command]
    assert found
    assert all(allowed & set(words) and len(words) <= 6 for words in found)


@pytest.mark.parametrize("kind", [NeedKind.DATA_SET, NeedKind.FILE, NeedKind.SECRET, NeedKind.HOST])
def test_a_name_that_would_be_read_as_an_option_is_in_no_command(kind: NeedKind) -> None:
    need = Need(kind=kind, name="--help")
    assert (command_for(need, "alice/env"), "no command" in hint_for(need, "alice/env")) == ("", True)


def test_a_name_is_one_printable_line() -> None:
    need = Need(kind=NeedKind.DATA_SET, name="a/b\n\x1b[201~rm\u202e")
    assert need.name == "a/b??[201~rm?"


@pytest.mark.parametrize(
    ("kind", "name", "command"),
    [
        (NeedKind.DATA_SET, "openai/gsm8k", "hub data add openai/gsm8k DIRECTORY"),
        (NeedKind.CORPUS, "nltk:words", "hub data add words FILE --kind nltk"),
        (NeedKind.CORPUS, "tiktoken:cl100k_base", "hub data add cl100k_base FILE --kind tiktoken"),
        (NeedKind.CORPUS, "spacy:en_core_web_sm", "hub data add en_core_web_sm FILE --kind spacy"),
        (NeedKind.FILE, "https://h.test/a.txt", "hub data add https://h.test/a.txt FILE --kind file"),
        (NeedKind.SANDBOX, "ghcr.io/swe/task:1.0", "hub image add ghcr.io/swe/task:1.0 TAR --owner alice"),
        (NeedKind.SANDBOX, "*", ""),
        (NeedKind.SECRET, "API_KEY", "hub secret set API_KEY && hub env check alice/env --secret API_KEY"),
        (NeedKind.ARGUMENT, "path", 'hub env check alice/env --env-args \'{"path": "..."}\''),
        (NeedKind.HOST, "api.example.com:443", "hub env check alice/env --allow-host api.example.com:443"),
        (NeedKind.JUDGE, "gpt-4.1-mini", "hub env check alice/env --judge gpt-4.1-mini=OWNER/MODEL"),
    ],
)
def test_each_need_has_the_command_that_meets_it(kind: NeedKind, name: str, command: str) -> None:
    assert command_for(Need(kind=kind, name=name), "alice/env") == command


def test_what_no_command_meets_says_whose_decision_it_is() -> None:
    host = Need(kind=NeedKind.GIT_HOST, name="github.com")
    assert command_for(host, "alice/env") == ""
    assert hint_for(host, "alice/env") == (
        "an operator lets github.com through with HUB_GIT_HOSTS, and the hub's next start builds it again; if a worker "
        "does not reach it: `hub env rebuild alice/env`"
    )


def test_arguments_are_given_to_a_run_by_one_option() -> None:
    needs = [Need(kind=NeedKind.ARGUMENT, name=name) for name in ("one", "two", "one")]
    assert flags_for([*needs, Need(kind=NeedKind.SECRET, name="KEY"), Need(kind=NeedKind.GPU, name="*")]) == (
        """--secret KEY --env-args '{"one": "...", "two": "..."}'"""
    )


def test_a_need_that_administrators_meet_says_so() -> None:
    data_set, secret = Need(kind=NeedKind.DATA_SET, name="a/b"), Need(kind=NeedKind.SECRET, name="KEY")
    assert hint_for(data_set, "alice/env") == "`hub data add a/b DIRECTORY` (administrators)"
    assert "administrators" not in hint_for(secret, "alice/env")
    assert "HUB_IMAGE_REGISTRIES" in hint_for(Need(kind=NeedKind.SANDBOX, name="python:3.11"), "alice/env")


def test_later_settings_add_to_earlier_ones() -> None:
    earlier = CheckSettings(env_args={"a": 1, "b": 1}, secrets=("KEY",), judges={"x": "a/m"})
    later = CheckSettings(env_args={"b": 2}, secrets=("OTHER", "KEY"), taskset={"n": 1})
    assert later.over(earlier) == CheckSettings(
        env_args={"a": 1, "b": 2}, secrets=("KEY", "OTHER"), judges={"x": "a/m"}, taskset={"n": 1}
    )


def _need(kind: NeedKind, name: str) -> Need:
    return Need(kind=kind, name=name)


def test_settings_meet_what_they_grant_and_nothing_else() -> None:
    given = CheckSettings(
        env_args={"path": "x"}, taskset={"data": {"name": "y"}}, secrets=("KEY",), judges={"gpt": "a/m"}
    )
    met = [
        *(_need(NeedKind.ARGUMENT, name) for name in ("path", "data", "taskset.data.name")),
        *(
            _need(kind, name)
            for kind, name in ((NeedKind.SECRET, "KEY"), (NeedKind.JUDGE, "gpt"), (NeedKind.JUDGE, "*"))
        ),
    ]
    unmet = [_need(NeedKind.SECRET, "OTHER"), _need(NeedKind.JUDGE, "other"), _need(NeedKind.DATA_SET, "KEY")]
    assert [need for need in (*met, *unmet) if given.meets(need)] == met
    assert CheckSettings(judges={"*": "a/m"}).meets(_need(NeedKind.JUDGE, "other"))
