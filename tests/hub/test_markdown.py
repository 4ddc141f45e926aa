"""Untrusted Markdown: what is shown and what never is."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from hub.web.markdown import LONGEST, render


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](data:text/html;base64,AAAA)",
        "<iframe src='https://example.org'></iframe>",
        "<style>*{display:none}</style>",
    ],
)
def test_nothing_active_survives(text: str) -> None:
    html = render(text)
    assert not any(
        tag in html for tag in ("<script", "<img src=x", "<iframe", "<style", 'href="javascript', 'src="data')
    )


def test_a_picture_is_a_link_so_that_reading_tells_nobody() -> None:
    html = render("![a plot](https://img.example/p.png)")
    assert '<a href="https://img.example/p.png"' in html
    assert ">a plot</a>" in html
    assert "<img" not in html


def calls_of_rendering(text: str) -> int:
    calls = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    render.cache_clear()
    sys.setprofile(note)
    try:
        render(text)
    finally:
        sys.setprofile(None)
    return calls


def test_the_cost_of_badges_grows_with_their_number_not_its_square() -> None:
    badge = "[![a](b)](c) "
    assert calls_of_rendering(badge * 800) < 3 * calls_of_rendering(badge * 400)


def test_a_badge_inside_a_link_is_its_text() -> None:
    html = render("[![build](https://img.example/b.svg)](https://ci.example/x)")
    assert html.count("<a ") == 1
    assert "img.example" not in html
    assert ">build</a>" in html


def test_alignment_needs_no_style() -> None:
    html = render("| a |\n|--:|\n| 1 |")
    assert '<td align="right">1</td>' in html
    assert "style" not in html


def test_tables_code_and_links_are_rendered() -> None:
    html = render("| a | b |\n|---|--:|\n| 1 | 2 |\n\n```python\nx = 1\n```\n\n[hub](https://example.org)")
    assert "<table>" in html
    assert 'class="language-python"' in html
    assert 'rel="nofollow noopener noreferrer"' in html


def test_headings_are_one_level_down_because_the_page_has_its_own() -> None:
    html = render("# One\n\nTwo\n---\n\n###### Six\n")
    assert "<h2>One</h2>" in html
    assert "<h3>Two</h3>" in html
    assert "<h6>Six</h6>" in html


def test_a_text_that_takes_too_long_is_shown_as_it_is() -> None:
    text = "![![" * 60_000
    assert render(text) == f"<pre>{text}</pre>"


def test_a_text_that_is_too_long_is_escaped_and_shown_as_it_is() -> None:
    html = render("<b>" + "a" * LONGEST)
    assert html.startswith("<pre>&lt;b&gt;aaa")


def test_the_same_text_is_rendered_once() -> None:
    assert render("# once") is render("# once")
