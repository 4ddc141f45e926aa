"""Every error code with what is said and what to do, from the places that raise it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from envhub.packaging.syntax import parse

ROOT = Path(__file__).parents[2]
SOURCES = ("hub", "workers", "sdk/envhub")
_SPECIAL = re.compile(r"[\\*_<\[|]")
LONGEST = 400  # characters of a message
CAUSES = Path(__file__).with_name("causes.toml")
GENERAL = {"error", "usage", "internal", "api_error", "environment_error", "sandbox_error", "learner_error"}
PLACES = {"BuildFailed": ("code", "message", "hint"), "because": ("kind", "code", "message", "hint")}
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
    """Markdown with a headline for each code: what causes it, where somebody wrote that down, and what is said."""
    modules = [
        parse(path.read_text(encoding="utf-8"), path.name)
        for folder in SOURCES
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "migrations" not in path.parts
    ]
    own = {name: code for module in modules for name, code in class_codes(module) if code not in GENERAL}
    codes: dict[str, set[Told]] = defaultdict(set)
    for module in modules:
        for code, told in raised(module, own):
            codes[code].add(told)
    return "\n".join([INTRODUCTION, *(_entry(code, sorted(codes[code])) for code in sorted(codes))])


def causes() -> dict[str, str]:
    """Code -> why it happens and what helps, for those that people meet most. Raises OSError."""
    found: dict[str, str] = tomllib.loads(CAUSES.read_text(encoding="utf-8"))
    return {code: " ".join(text.split()) for code, text in found.items()}


def class_codes(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(name of an exception class, its code)."""
    for node in ast.walk(module):
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(item, ast.Assign) and any(getattr(one, "id", "") == "code" for one in item.targets):
                assert isinstance(node, ast.ClassDef)
                if isinstance(item.value, ast.Constant) and isinstance(item.value.value, str):
                    yield node.name, item.value.value


def _entry(code: str, places: list[Told]) -> str:
    lines = [f"## {code}", *([f"{cause}\n"] if (cause := causes().get(code)) else [])]
    for told in places:
        lines.append(f"- {_text(told.message)}" + (f" — {_text(told.hint)}" if told.hint else ""))
    return "\n".join([*lines, ""])


def _text(text: str) -> str:
    """What Markdown would take for its own is escaped, outside of code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without another
        return "`".join(parts).replace("`", "\\`")
    return "`".join(part if at % 2 else _SPECIAL.sub(r"\\\g<0>", part) for at, part in enumerate(parts))


def raised(module: ast.Module, own: Mapping[str, str] = MappingProxyType({})) -> Iterator[tuple[str, Told]]:
    """(code, what is said) of each error or failure that a module makes with a message of its own.

    own: codes of exception classes, by their names, for errors that are given none.
    """
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
        given = _arguments(node)
        code = _said(given["code"], constants) if "code" in given else own.get(_name(node), "")
        message = _said(given["message"], constants) if "message" in given else ""
        if code and message.strip("… ") and "…" not in code and code.replace("_", "").isalnum():
            hint = _said(given["hint"], constants) if "hint" in given else ""
            yield code, Told(message[:LONGEST], hint if hint.strip("… ") else "")


def _name(call: ast.Call) -> str:
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    """The arguments by name; those without are named as the function that is called names them."""
    places = PLACES.get(_name(call), ("message",))
    return dict(zip(places, call.args, strict=False)) | {item.arg: item.value for item in call.keywords if item.arg}


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
