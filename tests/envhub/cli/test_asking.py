"""What is to be deleted is asked for on a terminal; elsewhere it needs --yes."""

from __future__ import annotations

import io
import sys

import pytest
import typer
from envhub.cli.terminal.asking import ask_to_delete
from envhub.cli.terminal.session import Session
from envhub.errors import UsageError


class Terminal(io.StringIO):
    """Somebody who types this."""

    def isatty(self) -> bool:
        return True


def test_the_answer_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    ask_to_delete(Session(), "it", yes=False)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    with pytest.raises(typer.Abort):
        ask_to_delete(Session(), "it", yes=False)


@pytest.mark.parametrize(("stdin", "json"), [(io.StringIO("y\n"), False), (Terminal("y\n"), True)])
def test_nobody_is_asked_in_a_script(monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO, json: bool) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(UsageError, match="whether to delete it") as caught:
        ask_to_delete(Session(json=json), "it", yes=False)
    assert caught.value.hint == "Pass --yes."
    ask_to_delete(Session(json=json), "it", yes=True)
