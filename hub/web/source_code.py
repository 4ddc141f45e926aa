"""Source code as HTML: comments, strings, numbers and the language's own words in classes of the stylesheet.

One expression a language, which looks at each character once: what packages and models write can be long and hostile,
and a real lexer's expressions may take the square of it. They know too little for some odd line; no character is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString, mark_safe

LONGEST = 100_000  # characters; more is shown without colours
COMMENT, STRING, NUMBER, WORD, NEW, OLD, PLACE = CLASSES = (
    *("code-comment", "code-string", "code-number", "code-word"),
    *("diff__new", "diff__old", "diff__at"),
)
_STRINGS = r""""(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?"""
_HASH, _SLASHES = r"(?<![^\s])#[^\n]*", r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_LONG_STRINGS = r'"""[\s\S]*?(?:"""|\Z)|' + r"'''[\s\S]*?(?:'''|\Z)"
_PYTHON = """and as assert async await break case class continue def del elif else except False finally for from global
    if import in is lambda match None nonlocal not or pass raise return True try while with yield"""
_SHELL = "case do done elif else esac export fi for function if in then until while false null true"
_CURLY = """async await break case catch class const continue default do else enum export extends false finally fn for
    func function if impl import in interface let match mut new null package pub return static struct switch this throw
    true try type undefined use var void while"""


@dataclass(frozen=True)
class _Language:
    tokens: re.Pattern[str]
    words: frozenset[str]


def _language(comments: str, strings: str, words: str, *, inside_words: str = "") -> _Language:
    """`inside_words`: characters that a word may also have from its second on, as the hyphen of `fix-function`."""
    word = rf"[A-Za-z_][\w{inside_words}]*"
    tokens = rf"(?P<comment>{comments})|(?P<string>{strings})|(?P<word>{word})|(?P<number>\d[\w.]*)"
    return _Language(re.compile(tokens), frozenset(words.split()))


_KNOWN = {
    "py python python3 pyi": _language(r"#[^\n]*", rf"(?:\b[rbfuRBFU]{{1,2}})?(?:{_LONG_STRINGS}|{_STRINGS})", _PYTHON),
    "bash sh shell zsh yaml yml ini cfg dockerfile makefile": _language(_HASH, _STRINGS, _SHELL, inside_words="./-"),
    "toml": _language(_HASH, f"{_LONG_STRINGS}|{_STRINGS}", _SHELL, inside_words="-"),
    "js javascript ts typescript jsx tsx json jsonc c cpp h rust rs go java": _language(
        _SLASHES, rf"{_STRINGS}|`[^`]*`?", _CURLY
    ),
}
_LANGUAGES = {name: language for names, language in _KNOWN.items() for name in names.split()}
_DIFFS = {"diff", "patch"}


def language_of(path: str) -> str:
    """By the name of a file; "": none that is known."""
    found = path.lower().rpartition("/")[2].rpartition(".")[2]
    return found if found in _LANGUAGES or found in _DIFFS else ""


def is_known(language: str) -> bool:
    """Whether it is shown in colours."""
    return language in _LANGUAGES or language in _DIFFS


def colour(text: str, language: str) -> SafeString:
    """The text as HTML; of an unknown language, or a very long one, it is merely escaped."""
    return mark_safe("\n".join(colour_lines(text, language)))  # noqa: S308  every piece is escaped


def colour_lines(text: str, language: str) -> list[SafeString]:
    """The same, line by line: a string over several lines is opened anew on each."""
    lines: list[list[str]] = [[]]
    for kind, piece in _pieces(text, language):
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(f'<span class="{kind}">{escape(part)}</span>' if kind else escape(part))
    return [mark_safe("".join(line)) for line in lines]  # noqa: S308  every piece is escaped


def _pieces(text: str, language: str) -> Iterator[tuple[str, str]]:
    """(class or "", text), which together are the whole text."""
    if len(text) > LONGEST or not is_known(language):
        yield "", text
    elif language in _DIFFS:
        for line in text.splitlines(keepends=True):
            yield _of_diff(line), line
    else:
        yield from _tokens(text, _LANGUAGES[language])


def _of_diff(line: str) -> str:
    if line.startswith(("+++ ", "--- ", "@@", "diff ", "index ")):
        return PLACE
    return NEW if line.startswith("+") else OLD if line.startswith("-") else ""


def _tokens(text: str, language: _Language) -> Iterator[tuple[str, str]]:
    at = 0
    for found in language.tokens.finditer(text):
        kind = {"comment": COMMENT, "string": STRING, "number": NUMBER}.get(found.lastgroup or "", "")
        if found.lastgroup == "word" and found.group() in language.words:
            kind = WORD
        if kind:
            yield "", text[at : found.start()]
            yield kind, found.group()
            at = found.end()
    yield "", text[at:]
