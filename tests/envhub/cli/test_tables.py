"""Tables on terminals of all widths."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from io import StringIO

import pytest
from envhub.cli.environments import commands as environments
from envhub.cli.evaluations import commands as evaluations
from envhub.cli.terminal.session import Session
from envhub.cli.terminal.tables import AS_IT_IS, Fit

RUN = "01a205b1-763f-7210-a718-d326bbf30d95"
OTHER = "01a205b1-7640-7210-a718-d326bbf30d95"
EVALUATIONS = ("id", "environment", "model", "state", "reward", "coverage", "source", "created")
ROW = (
    "demo/reverse-text",
    "hub/tiny",
    "succeeded",
    "0.04 ± 0.01",
    "80/80 scored (80 ok)",
    "hosted",
    "2026-01-02 03:04",
)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


Print = Callable[..., list[str]]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Print:
    """The lines of a table on a terminal of so many columns, without colours."""
    monkeypatch.setenv("TERM", "xterm")

    def lines(width: int, columns: tuple[str, ...], *rows: tuple[object, ...], fit: Fit = AS_IT_IS) -> list[str]:
        monkeypatch.setattr(sys, "stdout", terminal := Terminal())
        monkeypatch.setenv("COLUMNS", str(width))
        Session().table(columns, rows, fit=fit)
        return [line.rstrip() for line in re.sub(r"\x1b\[\d+m", "", terminal.getvalue()).splitlines()]

    return lines


@pytest.mark.parametrize("width", range(80, 171, 10))
def test_an_evaluation_is_one_line_with_its_id_names_and_reward(printed: Print, width: int) -> None:
    lines = printed(width, EVALUATIONS, (RUN, *ROW), (OTHER, *ROW), fit=evaluations.LISTED)
    assert len(lines) == 3
    assert max(map(len, lines)) <= width
    assert lines[1].startswith(RUN[:13])
    assert all(text in lines[1] for text in ROW[:4])


def test_the_least_important_columns_go_first_and_are_told(printed: Print, capsys: pytest.CaptureFixture[str]) -> None:
    heads = printed(100, EVALUATIONS, (RUN, *ROW), fit=evaluations.LISTED)[0].split()
    assert heads == ["id", "environment", "model", "state", "reward", "created"]
    assert "left out: source, coverage" in capsys.readouterr().err


def test_ids_are_whole_where_there_is_room(printed: Print) -> None:
    assert RUN in printed(170, EVALUATIONS, (RUN, *ROW), fit=evaluations.LISTED)[1]


def test_ids_of_one_millisecond_are_as_long_as_tells_them_apart(printed: Print) -> None:
    twin = RUN.replace("7210", "7310")
    lines = printed(40, ("id", "name"), (RUN, "a" * 20), (twin, "b"), (OTHER, "c"))
    assert [line.split()[0] for line in lines[1:]] == [RUN[:16], twin[:16], OTHER[:13]]


def test_an_id_in_any_column_is_shortened(printed: Print) -> None:
    assert printed(60, ("rank", "model", "evaluation"), (1, "demo/a-model-of-a-long-name", RUN))[1].endswith(RUN[:13])


def test_a_name_is_never_cut_a_description_is(printed: Print) -> None:
    columns = ("environment", "version", "state", "visibility", "description")
    row = (
        "demo/an-environment-of-a-long-name",
        "0.1.0",
        "ready",
        "public",
        "What it is, in very many words of its author",
    )
    line = printed(100, columns, row, fit=environments.LISTED)[1]
    assert line.split()[:6] == [*row[:4], "What", "it"]
    assert line.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert len(line) <= 100
    assert row[0] in printed(30, columns, row, fit=environments.LISTED)[1]


def test_texts_are_wrapped_where_a_table_says_so(printed: Print) -> None:
    lines = printed(
        40, ("example", "failure"), (1, "the model gave no answer in time, twice"), fit=Fit(wrap=("failure",))
    )
    assert lines == ["example  failure", "      1  the model gave no answer in", "         time, twice"]


def test_what_fits_no_terminal_is_left_to_it_unbroken(printed: Print) -> None:
    assert printed(10, ("name", "loss"), ("demo/reverse-text", -2.366e-05))[1] == "demo/reverse-text  -2.366e-05"


def test_off_a_terminal_nothing_gives_way(capsys: pytest.CaptureFixture[str]) -> None:
    Session().table(EVALUATIONS, [(RUN, *ROW)], fit=evaluations.LISTED)
    assert capsys.readouterr().out.splitlines()[1].split() == " ".join((RUN, *ROW)).split()
