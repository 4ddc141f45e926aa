"""What a box says that it lacks is kept only where its name is what its kind promises: commands are made of it."""

from __future__ import annotations

import pytest
from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runs import Failure, FailureKind

from workers.builds.trying.trial import _Ended, _refused
from workers.rollouts.errors import RunnerFatal
from workers.rollouts.interceptor.scripted import Scripted
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.needs import LIMIT, cleaned, files, hosts, judges, told
from workers.rollouts.unmet import Unmet


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("data_set", "openai/gsm8k"),
        ("data_set", "gsm8k"),
        ("model", "Qwen/Qwen3-0.6B"),
        ("corpus", "nltk:punkt_tab"),
        ("file", "https://host.example:8443/a/b%20c.txt"),
        ("secret", "SEARCH_API_KEY"),
        ("argument", "taskset.path"),
        ("host", "api.example.com:443"),
        ("judge", "openai/gpt-4.1-mini"),
        ("sandbox", "*"),
        ("sandbox", "docker.io/library/python:3.11"),
        ("program", "java"),
        ("program", "npm:@scope/pi-acp@0.0.33"),
        ("program", "playwright:chromium_headless_shell-1255"),
    ],
)
def test_a_plain_name_is_kept(kind: str, name: str) -> None:
    assert [need.name for need in cleaned([Need(kind=NeedKind(kind), name=name)])] == [name]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("data_set", "a/b; rm -rf ~"),
        ("data_set", "--help"),
        ("data_set", "a/../../etc"),
        ("model", "a\nb"),
        ("corpus", "nltk:$(id)"),
        ("file", "https://user:password@host/x.txt"),
        ("file", "file:///etc/passwd"),
        ("file", "https://host/x?token=1"),
        ("secret", "lower_case"),
        ("secret", "A_KEY\n"),
        ("argument", "a b"),
        ("argument", "a']; import os"),
        ("host", "host:443 --admin"),
        ("host", "host"),
        ("judge", "`id`"),
        ("sandbox", "-v /:/host"),
        ("gpu", "8"),
        ("program", "/bin/sh -c id"),
    ],
)
def test_anything_else_is_dropped(kind: str, name: str) -> None:
    assert cleaned([Need(kind=NeedKind(kind), name=name)]) == ()


def test_needs_are_bounded_distinct_and_printable() -> None:
    many = [Need(kind=NeedKind.SECRET, name=f"KEY_{number}", detail="a\x1b[1m\nb" * 120) for number in range(50)]
    kept = cleaned([*many, *many])
    assert len(kept) == LIMIT
    assert all(need.detail.isprintable() and len(need.detail) <= 500 for need in kept)


def test_rules_around_a_message_are_no_detail() -> None:
    framed = f"\n{'*' * 70}\n  Resource 'words' not found.\n{'-' * 8}\n>>> nltk.download('words')\n"
    (need,) = cleaned([Need(kind=NeedKind.CORPUS, name="nltk:words", detail=framed)])
    assert need.detail == "Resource 'words' not found. >>> nltk.download('words')"


def test_needs_are_told_in_words() -> None:
    found = [Need(kind=NeedKind.DATA_SET, name="a/b"), Need(kind=NeedKind.SANDBOX, name="*")]
    assert told(found) == "data set a/b, sandbox"
    assert told(judges(["gpt-4.1-mini"])) == "judge gpt-4.1-mini"


def test_a_plain_file_that_had_no_answer_is_a_need_and_a_question_to_a_service_is_none() -> None:
    asked = [
        ("GET", "https://h.test/a/words.txt"),
        ("GET", "https://h.test/a/words.csv?raw=true"),
        ("GET", "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/words.zip"),
        ("GET", "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"),
        ("GET", "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/index.xml"),
        ("GET", "https://h.test/v1/search?q=a.b"),
        ("POST", "https://h.test/a/words.txt"),
        ("GET", "https://user@h.test/words.txt"),
        ("GET", "https://huggingface.co/datasets/a/b/resolve/main/x.json"),
        ("GET", "https://huggingface.co/api/datasets/a/b/revision/main"),
        ("GET", "https://huggingface.co/datasets/gsm8k/resolve/main/README.md"),
        ("GET", "https://huggingface.co/a/small-model/resolve/main/config.json"),
        ("GET", "https://huggingface.co/spaces/a/game/info/refs"),
        ("GET", "https://huggingface.co/api/whoami-v2"),
        ("GET", "https://git.example.org/a/game.git/info/refs?service=git-upload-pack"),
    ]
    assert [need.words for need in cleaned(files(asked))] == [
        "file https://h.test/a/words.txt",
        "file https://h.test/a/words.csv?raw=true",
        "corpus nltk:words",
        "corpus tiktoken:o200k_base",
        "data set a/b",
        "data set gsm8k",
        "model a/small-model",
        "clone host git.example.org",
    ]


def test_code_that_hides_why_it_fails_is_given_the_file_that_had_no_answer() -> None:
    interceptor = Interceptor(Scripted())
    interceptor.files_lacking["GET", "https://h.test/words.txt"] = None
    failure = Failure(kind=FailureKind.ENVIRONMENT, code="load_failed", message="list index out of range")
    silent = _refused("load", RunnerFatal(failure, ""), Unmet(interceptor), "mine")
    assert isinstance(silent, _Ended)
    assert [need.words for need in silent.trial.needs] == ["file https://h.test/words.txt"]
    secret = Need(kind=NeedKind.SECRET, name="API_KEY")
    clear = _refused("load", RunnerFatal(failure, "", (secret,)), Unmet(interceptor), "mine")
    assert isinstance(clear, _Ended)
    assert clear.trial.needs == (secret,)


def test_a_file_that_is_not_there_may_have_been_in_a_repository_that_was_not_cloned() -> None:
    interceptor = Interceptor(Scripted())
    interceptor.files_lacking["GET", "https://h.test/prices.json"] = None
    failure = Failure(kind=FailureKind.ENVIRONMENT, code="file_not_packaged", message="a file is looked for outside")
    ended = _refused("load", RunnerFatal(failure, ""), Unmet(interceptor), "mine")
    assert isinstance(ended, _Ended)
    assert not ended.trial.needs
    for host in ("git.test:99999", "git.test"):
        interceptor.files_lacking["GET", f"https://{host}/a/b.git/info/refs?service=git-upload-pack"] = None
    ended = _refused("load", RunnerFatal(failure, ""), Unmet(interceptor), "mine")
    assert isinstance(ended, _Ended)
    assert [need.words for need in ended.trial.needs] == ["clone host git.test"]


@pytest.mark.parametrize(
    ("code", "message"),
    [("import_error", "importing x failed: ModuleNotFoundError: No module named 'y'"), ("no_verifiers_name", "x")],
)
def test_a_failure_with_another_cause_is_not_blamed_on_a_file(code: str, message: str) -> None:
    interceptor = Interceptor(Scripted())
    interceptor.files_lacking["GET", "https://h.test/prices.json"] = None
    failure = Failure(kind=FailureKind.ENVIRONMENT, code=code, message=message)
    ended = _refused("load", RunnerFatal(failure, ""), Unmet(interceptor), "mine")
    assert isinstance(ended, _Ended)
    assert not ended.trial.needs


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("CalledProcessError: Command 'download.sh' returned non-zero exit status 1.", ["packages.example.org:443"]),
        ("ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)", ["packages.example.org:443"]),
        ("ValueError: x", []),
    ],
)
def test_a_program_that_ended_says_not_what_it_asked_for_but_the_worker_does(message: str, expected: list[str]) -> None:
    asked = [("GET", "https://packages.example.org/a"), ("POST", "https://packages.example.org/b")]
    asked += [("GET", "https://packages.example.org:99999/a"), ("GET", "https://[packages/a")]  # of a malformed request
    assert [need.name for need in cleaned(hosts(asked, message))] == expected
