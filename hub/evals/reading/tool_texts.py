"""What a tool call and its result say, in parts as the reader shows them, each with what tells its language.

The language itself is found when a part is shown (hub.web.tool_languages).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from envhub.packaging.conversation import Message, ToolCall, clipped, pretty
from envhub.protocol.base import Json

_COMMANDS = frozenset({"command", "cmd", "commands", "bash", "script", "shell"})  # names of arguments
_PATHS = ("path", "file_path", "filepath", "filename", "file", "file_name")
_LONGEST_COMMAND = 300  # characters; the expression takes the square of it
_SHOWS_FILE = re.compile(r"\s*(?:cat|head|tail|nl|sed|less)\b[^|;&\n]*?([^\s|;&'\"]+\.\w+)\s*$")


@dataclass(frozen=True)
class ToolText:
    """An argument or a result.

    name: of the argument, "" if it needs none; hint: a file's name (or "x.sh" for a command) that tells the language;
    place: of the part in its turn, "CALL.PART".
    """

    text: str
    name: str = ""
    hint: str = ""
    place: str = ""


def call_texts(call: ToolCall, result: Message | None, number: int) -> tuple[list[ToolText], ToolText | None]:
    """Return the arguments and the result of a turn's call with this number.

    Several arguments are shown one by one if one of them has several lines, which JSON would write as one.
    """
    values = _values(call.arguments)
    arguments = _arguments(call, values)
    placed = [ToolText(one.text, one.name, one.hint, f"{number}.{at}") for at, one in enumerate(arguments)]
    if result is None or not result.text:
        return placed, None
    hint = _file_in(values) if "\n" in result.text else ""
    return placed, ToolText(result.text, hint=hint, place=f"{number}.{len(placed)}")


def _values(arguments: str) -> dict[str, Json]:
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _arguments(call: ToolCall, values: dict[str, Json]) -> list[ToolText]:
    if len(values) == 1:
        (name,) = values
        return [ToolText(call.only_argument, hint=_hint(name, values))]
    if not any(isinstance(value, str) and "\n" in value for value in values.values()):
        return [ToolText(call.only_argument, hint="x.json" if values else "")]
    return [
        ToolText(clipped(value if isinstance(value, str) else pretty(value)), name, _hint(name, values))
        for name, value in values.items()
    ]


def _hint(name: str, values: dict[str, Json]) -> str:
    if name in _COMMANDS:
        return "x.sh"
    return "" if name in _PATHS or not isinstance(values[name], str) else _path(values)


def _path(values: dict[str, Json]) -> str:
    paths = (value for name in _PATHS if isinstance(value := values.get(name), str))
    return next(paths, "")


def _file_in(values: dict[str, Json]) -> str:
    """Return the file that a call reads: its path, or the one that a command prints."""
    commands = (value for name, value in values.items() if name in _COMMANDS and isinstance(value, str))
    short = (value for value in commands if len(value) <= _LONGEST_COMMAND)
    found = next(filter(None, map(_SHOWS_FILE.match, short)), None)
    return found[1] if found else _path(values)
