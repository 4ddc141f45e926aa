"""Every error code with what is said and what to do, from the places that raise it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envhub.packaging.syntax import parse

ROOT = Path(__file__).parents[2]
SOURCES = ("hub", "workers", "sdk/envhub")
_SPECIAL = re.compile(r"[\\*_<\[|]")
LONGEST = 400  # characters of a message
INTRODUCTION = """# Error codes
Every error has a stable code, which `--json` and the REST API give (`error.code`), and a run that failed shows. Here is
what each says, `…` for what differs from case to case, and what to do about it.
"""


@dataclass(frozen=True, order=True)
class Told:
    """One place that raises a code."""

    message: str
    hint: str


def errors_page() -> str:
    """Markdown with a headline for each code."""
    codes: dict[str, set[Told]] = defaultdict(set)
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                for code, told in raised(parse(path.read_text(encoding="utf-8"), path.name)):
                    codes[code].add(told)
    return "\n".join([INTRODUCTION, *(_entry(code, sorted(codes[code])) for code in sorted(codes))])


def _entry(code: str, places: list[Told]) -> str:
    lines = [f"## {code}"]
    for told in places:
        lines.append(f"- {_text(told.message)}" + (f" — {_text(told.hint)}" if told.hint else ""))
    return "\n".join([*lines, ""])


def _text(text: str) -> str:
    """What Markdown would take for its own is escaped, outside of code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without another
        return "`".join(parts).replace("`", "\\`")
    return "`".join(part if at % 2 else _SPECIAL.sub(r"\\\g<0>", part) for at, part in enumerate(parts))


def raised(module: ast.Module) -> Iterator[tuple[str, Told]]:
    """(code, what is said) of each error or failure that a module makes with a code and a message of its own."""
    constants = {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        code = _said(given["code"], constants) if "code" in given else ""
        first = given.get("message") or (node.args[0] if node.args else None)
        message = _said(first, constants) if first is not None else ""
        if code and message.strip("… ") and "…" not in code and code.replace("_", "").isalnum():
            hint = _said(given["hint"], constants) if "hint" in given else ""
            yield code, Told(message[:LONGEST], hint if hint.strip("… ") else "")


def _said(node: ast.expr, constants: dict[str, str]) -> str:
    """The text of an expression, … for what only a run knows."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.Name):
        return constants.get(node.id, "…")
    if isinstance(node, ast.JoinedStr):
        parts = [_said(part, constants) for part in node.values]
        return "".join(parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _said(node.left, constants) + _said(node.right, constants)
    return "…"
