"""Untrusted Markdown: what is shown and what never is."""

from __future__ import annotations

import sys
import time
from html.parser import HTMLParser
from types import FrameType

import pytest

from hub.web.markdown import CPU_SECONDS, LONGEST, render


class ReadTags(HTMLParser):
    """What a browser would see of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](data:text/html;base64,AAAA)",
        "<iframe src='https://example.org'></iframe>",
        "<style>*{display:none}</style>",
        "<ScRiPt src=//evil.example></ScRiPt>",
        "<div><script>alert(1)</script></div>",
        "a <a href='jav&#x61;script:alert(1)'>x</a>",
        "<p onclick=alert(1) style='position:fixed' class=danger id=main>x</p>",
        "<svg><a xlink:href='javascript:alert(1)'>x</a></svg>",
        "<details open ontoggle=alert(1)>x</details>",
        "<img alt='<script>alert(1)</script>' src='x'>",
        "<a href='x' title='\"><script>alert(1)</script>'>x</a>",
        "<!-- --!><script>alert(1)</script> -->",
        "<plaintext><script>alert(1)</script>",
        "<form action=//evil.example><input name=password></form>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "<p <script>alert(1)</script>>",
    ],
)
def test_nothing_active_survives(text: str) -> None:
    html = render(text)
    seen = ReadTags()
    seen.feed(html)
    assert not seen.names & {"script", "img", "iframe", "style", "svg", "math", "form", "input", "plaintext"}
    assert not any(name.startswith("on") or name in {"style", "class", "id", "src"} for name, _ in seen.attributes)
    assert not any("script:" in (value or "") or "data:" in (value or "") for _, value in seen.attributes)


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


BADGE = '<a href="https://ci.example/x"><img src="https://img.example/b.svg" alt="build"></a>'
LINK = 'rel="nofollow noopener noreferrer"'


@pytest.mark.parametrize("text", [BADGE, f"Status: {BADGE}", f'<p align="center">\n  {BADGE}\n</p>'])
def test_a_badge_in_html_is_a_link_with_its_text(text: str) -> None:
    html = render(text)
    assert f'<a href="https://ci.example/x" {LINK}>build</a>' in html
    assert "img" not in html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<img src='https://img.example/p' alt='a plot'>", f'<a href="https://img.example/p" {LINK}>a plot</a>'),
        ("<img src=p.png width=100>", f'<a href="p.png" {LINK}>picture</a>'),
        ("[<img src=p.png alt=x>](https://a.example)", f'<p><a href="https://a.example" {LINK}>x</a></p>'),
        ("[<a href=b>b</a>](https://a.example)", f'<p><a href="https://a.example" {LINK}>b</a></p>'),
        ("H<sub>2</sub>O<br>x<sup>2</sup> <kbd>C</kbd>", "<p>H<sub>2</sub>O<br>x<sup>2</sup> <kbd>C</kbd></p>"),
        ('<h1 align="center">Name</h1>', '<h2 align="center">Name</h2>'),
        ("<h6>x</h6>", "<h6>x</h6>"),
        ("<p align=middle>x</p>", "<p>x</p>"),
        ("<details open><summary>More</summary>\n\n*text*\n\n</details>", "<em>text</em>"),
        ("<table><tr><td colspan=2 align=right>1</td></tr></table>", '<td colspan="2" align="right">1</td>'),
        ("<td colspan=999999>1</td>", "1"),
        ("answer in <answer>42</answer>", "answer in &lt;answer&gt;42&lt;/answer&gt;"),
        ("before <!-- a note --> after", "<p>before  after</p>"),
        ("1 < 2 and <b", "<p>1 &lt; 2 and &lt;b</p>"),
        ("a <b>bold\n\nplain", "<p>plain</p>"),
        ("</div></div></body>text", "text"),
    ],
)
def test_harmless_html_is_shown_and_unknown_tags_are_text(text: str, shown: str) -> None:
    assert shown in render(text)


@pytest.mark.parametrize(
    "text",
    [
        "<b><i><u><s><em><code><small><strong>" * 50 + "\n\nx" * 40_000,  # opened anew in each paragraph
        "".join(f"<a href={number}><b><i>" for number in range(4000)) + "<p>" * 50_000,
        "<div>" * 4900,
        "<table>" * 4900,
        "<a '" * 60_000,
        "<div>\n" + "<a \"<b '\"'" * 20_000,
        "x <!--" * 40_000,
        "<!--" * 60_000,
        "<" * 250_000,
        "<p " + "a=" * 120_000,
    ],
)
def test_hostile_html_costs_a_bounded_time_and_size(text: str) -> None:
    began = time.thread_time()
    html = render(text)
    assert time.thread_time() - began < 4 * CPU_SECONDS
    assert len(html) < 16 * LONGEST


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
