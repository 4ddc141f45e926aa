"""Tool calls and results in the reader: their parts, and which of them are shown as code."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from envhub.packaging.conversation import conversation
from envhub.protocol.base import JsonObject

from hub.evals.models import Evaluation
from hub.evals.reading.record_reader import COLOURED
from hub.evals.reading.tool_texts import ToolText, call_texts
from hub.evals.reading.transcript import SHOWN
from hub.web.tool_languages import language_in
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_record, start, store

DIFF = "diff --git a/x.txt b/x.txt\n--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-old line\n+new line\n"
PYTHON = "import os\n\ndef add(a, b):\n    return a + b\n"


def told(arguments: JsonObject | str, result: str, *, name: str = "tool") -> list[JsonObject]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": text}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": result, "tool_call_id": "c"},
    ]


def parts(arguments: JsonObject | str, result: str) -> tuple[list[ToolText], ToolText | None]:
    asked, answered = conversation(make_record(prompt=None, completion=told(arguments, result)))
    return call_texts(asked.calls[0], answered, 0)


@pytest.mark.parametrize(
    ("text", "hint", "language"),
    [
        (DIFF, "", "diff"),
        (f"$ git diff\n{DIFF}", "x.sh", "diff"),
        ("*** Begin Patch\n*** Update File: a.py\n", "", "diff"),
        (PYTHON, "", "python"),
        ("     1\timport os\n     2\tclass A:\n", "", "python"),
        ("x = 1\n", "pkg/x.py", "py"),
        ("#!/bin/sh\nls", "", "bash"),
        ('{\n "a": 1\n}', "", "json"),
        ("- one\n- two\n+ three", "", ""),
        ("I import this and that.\nall passed", "", ""),
        ("", "", ""),
    ],
)
def test_the_language_of_a_text(text: str, hint: str, language: str) -> None:
    assert language_in(text, hint) == language


def test_several_arguments_are_shown_one_by_one_if_one_has_lines() -> None:
    arguments, result = parts({"path": "a.py", "content": PYTHON, "mode": 420}, "written")
    assert [(one.name, one.text, one.hint, one.place) for one in arguments] == [
        ("path", "a.py", "", "0.0"),
        ("content", PYTHON, "a.py", "0.1"),
        ("mode", "420", "", "0.2"),
    ]
    assert result == ToolText("written", place="0.3")
    (whole,), _ = parts({"path": "a.py", "depth": 2}, "")
    assert (json.loads(whole.text), whole.hint) == ({"path": "a.py", "depth": 2}, "x.json")


@pytest.mark.parametrize("command", ["cat src/a.py", "sed -n '1,40p' src/a.py", "head -5 src/a.py "])
def test_the_result_of_a_command_that_prints_a_file_is_in_its_language(command: str) -> None:
    (argument,), result = parts({"command": command}, "x = 1\ny = 2")
    assert (argument.hint, result and result.hint) == ("x.sh", "src/a.py")
    assert parts({"command": f"{command} | wc"}, "1\n2")[1] == ToolText("1\n2", place="0.1")


def test_arguments_that_are_no_json_are_shown_as_they_are() -> None:
    assert parts("not json", "fine")[0] == [ToolText("not json", place="0.0")]


@pytest.fixture
def evaluation(db: None) -> Evaluation:
    found = create_hosted(make_user("ada"))
    start(found)
    return found


def page_of(evaluation: Evaluation, completion: list[JsonObject], **query: str) -> str:
    store(evaluation, [make_record(prompt=None, completion=completion)])
    return read(evaluation, **query)


def read(evaluation: Evaluation, **query: str) -> str:
    client = Client()
    client.force_login(evaluation.created_by)
    return client.get(f"/evaluations/{evaluation.pk}/rollouts/0/0", query).text


def test_a_short_diff_is_coloured_and_escaped(evaluation: Evaluation) -> None:
    page = page_of(evaluation, told({"command": "git diff"}, DIFF.replace("new line", "<b>new")))
    assert '<span class="diff__new">+&lt;b&gt;new</span>' in page
    assert '<span class="diff__old">-old line</span>' in page


def test_long_code_is_coloured_when_it_is_unfolded(evaluation: Evaluation) -> None:
    code = PYTHON * (COLOURED // len(PYTHON) + 1)
    page = page_of(evaluation, told({"code": code}, "done"))
    assert "code-word" not in page
    assert "turn=0&amp;part=0.0" in page
    unfolded = read(evaluation, turn="0", part="0.0")
    assert unfolded.count('<span class="code-word">import</span>') == code.count("import")
    assert "<html" not in unfolded
    client = Client()
    client.force_login(evaluation.created_by)
    address = f"/evaluations/{evaluation.pk}/rollouts/0/0"
    assert client.get(address, {"turn": "0", "part": "0.9"}).status_code == 404


def test_code_beyond_the_cut_comes_with_the_whole_turn(evaluation: Evaluation) -> None:
    code = PYTHON * (SHOWN // len(PYTHON) + 20)
    page = page_of(evaluation, told({"code": code}, "done"))
    assert "characters</a>" in page
    whole = read(evaluation, turn="0")
    assert whole.count('<span class="code-word">import</span>') == code.count("import")
    assert '<details class="call" id="t1" open>' in whole
