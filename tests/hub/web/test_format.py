"""How numbers and times are written."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from hub.web.templatetags.hub_format import coded, mebibytes, score, seconds, sentence, signed, when


@pytest.mark.parametrize(
    ("value", "text"), [(0.12, "+0.120"), (-0.0312, "−0.031"), (-0.0001, "0.000"), (0.0, "0.000"), (None, "–")]
)
def test_a_difference_has_its_sign_unless_it_is_nothing(value: float | None, text: str) -> None:
    assert signed(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.500"),
        (-55.988, "−55.988"),
        (0.0, "0.000"),
        (0.00012, "0.00012"),
        (4.456e29, "4.46e29"),
        (-2e-05, "−2e−5"),
        (None, "–"),
    ],
)
def test_a_reward_of_any_size_is_short_and_not_called_nothing(value: float | None, text: str) -> None:
    assert score(value) == text


@pytest.mark.parametrize(("value", "text"), [(512, "512 MiB"), (81559, "79.6 GiB"), (None, "–")])
def test_memory_is_written_as_it_is_sold(value: int | None, text: str) -> None:
    assert mebibytes(value) == text


@pytest.mark.parametrize(("value", "text"), [(75, "75 s"), (900, "15 min"), (905, "15 min 5 s"), (7800, "2 h 10 min")])
def test_a_duration_names_no_empty_unit(value: float, text: str) -> None:
    assert seconds(value) == text


def test_a_time_is_relative_and_exact_when_pointed_at() -> None:
    moment = timezone.now() - timedelta(minutes=5)
    html = when(moment)
    assert ">5 min ago</time>" in html
    assert f'title="{moment:%Y-%m-%d %H:%M:%S} UTC"' in html
    assert when(None) == "never"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Call `hub login URL`, or `x`.", "Call <code>hub login URL</code>, or <code>x</code>."),
        ("`<b>` & one ` alone", "<code>&lt;b&gt;</code> &amp; one ` alone"),
        ("", ""),
    ],
)
def test_what_a_hint_has_between_backticks_is_code(text: str, html: str) -> None:
    assert coded(text) == html


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("the run does not exist", "The run does not exist"),
        ("lab/mine already exists", "lab/mine already exists"),
        ("'hf token' is not a valid name", "'hf token' is not a valid name"),
        ("", ""),
    ],
)
def test_a_message_starts_with_a_capital_but_a_name_stays_as_it_is(message: str, shown: str) -> None:
    assert sentence(message) == shown
