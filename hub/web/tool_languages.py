"""Which language the text of a tool call or of its result is in, so that it can be shown in colours."""

from __future__ import annotations

import re

from hub.web.source_code import language_of

_READ = 4_000  # characters that are looked at
_DIFF = re.compile(
    r"^(?:diff --git |\*\*\* Begin Patch|--- \S[^\n]*\n\+\+\+ \S|@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@)", re.MULTILINE
)
_LINE = r"^(?:[ \t]*\d+[\t:|] ?)?[ \t]*"  # some tools number the lines of a file
_PYTHON = re.compile(
    rf"{_LINE}(?:def \w+\(|class \w+[(:]|import \w[\w.]*(?: as \w+)?$|from [\w.]+ import |if __name__ ==)", re.MULTILINE
)
_FEWEST = 2  # lines of Python that make a text Python


def language_in(text: str, hint: str = "") -> str:
    """Return the language of a text, "" for plain text.

    hint: the name of the file that it is said to be; a diff is one whatever the name.
    """
    start = text[:_READ]
    if _DIFF.search(start):
        return "diff"
    if found := language_of(hint):
        return found
    if start.startswith("#!"):
        return "python" if "python" in start.partition("\n")[0] else "bash"
    if len(_PYTHON.findall(start)) >= _FEWEST:
        return "python"
    ends = text[:1] + text.rstrip()[-1:]
    return "json" if ends in ("{}", "[]") and '"' in start and "\n" in text else ""
