"""Code in colours: no character is lost, nothing of it becomes HTML, and its cost grows with its length alone."""

from __future__ import annotations

import html
import re
import time

import pytest

from hub.web.markdown import render, render_message
from hub.web.source_code import LONGEST, colour, colour_lines, language_of

PROGRAM = '''@cache
def add(a: int) -> str:  # <b>
    """Two
    lines."""
    return f"{a!r} \\" < 3" + 'x' * 0x10
'''


def plain(shown: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", shown))


@pytest.mark.parametrize("language", ["python", "bash", "toml", "json", "diff", "text", ""])
def test_every_character_stays(language: str) -> None:
    text = PROGRAM + "'open \" `both\n/* and */ // rest\n-old\n+new\n"
    assert plain(colour(text, language)) == text


def test_words_strings_numbers_and_comments_are_told_apart() -> None:
    shown = colour(PROGRAM, "python")
    for kind, text in (("word", "def"), ("comment", "# &lt;b&gt;"), ("number", "0x10"), ("string", "&#x27;x&#x27;")):
        assert f'<span class="code-{kind}">{text}</span>' in shown
    assert ">add<" not in shown


def test_a_part_of_a_name_is_no_word() -> None:
    assert "code-word" not in colour("hub push environments/fix-function/if.py", "bash")
    assert "code-word" in colour("if true; then ls; fi", "bash")


def test_a_string_over_two_lines_is_one_on_each() -> None:
    lines = colour_lines(PROGRAM, "python")
    assert [line.count("code-string") for line in lines] == [0, 0, 1, 1, 2, 0]


def test_added_and_removed_lines_of_a_diff_differ() -> None:
    shown = render("```diff\n-old\n+new\n```")
    assert '<span class="diff__old">-old</span>' in shown
    assert '<span class="diff__new">+new</span>' in shown


def test_a_readme_cannot_dress_up_its_own_text() -> None:
    assert "class" not in render('<span class="diff__new">x</span> <p class="code-word">y</p>')


def test_the_language_is_that_of_the_name() -> None:
    assert [language_of(path) for path in ("a/b.PY", "pyproject.toml", "Makefile", "x.bin")] == [
        "py",
        "toml",
        "makefile",
        "",
    ]


@pytest.mark.parametrize("language", ["python", "bash", "rust"])
def test_no_text_costs_more_than_its_length(language: str) -> None:
    for piece in ('"', "'", '"""', "/*", "\\", "r", "f'", "#", "a.", "`"):
        text = (piece * LONGEST)[:LONGEST]
        began = time.thread_time()
        colour(text, language)
        assert time.thread_time() - began < 1, piece


def test_what_a_model_wrote_keeps_its_tags_and_lines() -> None:
    shown = render_message("<answer>7</answer> **b**\n<b>now</b> <!-- no --> calc.py")
    assert "&lt;answer&gt;7&lt;/answer&gt; <strong>b</strong><br>" in shown
    assert "&lt;b&gt;now&lt;/b&gt; &lt;!-- no --&gt; calc.py" in shown
    assert "<a " not in shown
