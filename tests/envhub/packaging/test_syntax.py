"""Strangers' source is parsed, or said to be beyond that; never more."""

from __future__ import annotations

import ast

import pytest
from envhub.packaging import syntax


@pytest.mark.parametrize("text", ["def (", "x = '\0'", "(" * 5000 + ")" * 5000, "-" * 100_000 + "1"])
def test_what_cannot_be_parsed_is_one_of_two_errors(text: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        syntax.parse(text)


def test_what_another_thread_has_broken_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real, broken = ast.parse, iter([True, True, False, True, True, True])

    def parse(text: str, filename: str) -> ast.Module:
        if next(broken):
            raise SystemError("AST constructor recursion depth mismatch (before=141, after=160)")
        return real(text, filename)

    monkeypatch.setattr(ast, "parse", parse)
    assert len(syntax.parse("a = 1").body) == 1
    with pytest.raises(ValueError, match="depth mismatch"):
        syntax.parse("a = 1")
