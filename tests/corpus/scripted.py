"""A model whose answer depends on the conversation alone, so that a hosted and a bare run get the same ones.

It does what the stand-ins' questions ask for, in every form that prompts commonly want, and errs in every fourth
conversation: scores are neither all 0 nor all 1.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from tests.fakes.policy_endpoint import Answer, Body, message_text

SUM = re.compile(r"(-?\d+) \+ (\d+)")
OPTION = r"^\W*([A-J])\W+{value}\W*$"
NAMES = re.compile(r"([Ss]ort .*?names.*?): ([\w, ]+)")
TAGS = re.compile(r"<(\w+)>")
CHOICE = re.compile(r"\[([a-z]+)\]")
QUOTED = re.compile(r"""(["`])([^"`_\n]{2,200})\1""")


def answer(body: Body) -> Answer | str:
    """A call of the first tool where there are tools and none was called; else a text."""
    messages = body.get("messages", [])
    said = [[message.get("role"), message_text(message.get("content"))] for message in messages]
    number = hashlib.sha256(json.dumps(said).encode()).digest()[0]
    errs = number % 4 == 0
    told = [text for role, text in said if role == "tool"]
    asked = next((text for role, text in reversed(said) if role == "user"), "")
    if schema := ((body.get("response_format") or {}).get("json_schema") or {}).get("schema"):
        return json.dumps(_of_schema(schema, schema.get("$defs") or {}))
    tools = body.get("tools")
    if tools and not told and not errs:
        function = tools[0]["function"]
        return Answer("", tool_calls=((function["name"], json.dumps(_arguments(function, asked))),))
    found = told[-1] if told else _solve(asked, "\n".join(text for _, text in said), number)
    found = found or "nothing"  # an answer without content is an error to verifiers
    return _worded(found[::-1] + "?" if errs else found, "\n".join(text for role, text in said if role != "assistant"))


def _arguments(function: dict[str, Any], asked: str) -> dict[str, Any]:
    """What the prompt quotes, for each argument that is a text."""
    schema = function.get("parameters") or {}
    quoted = next((text for _, text in QUOTED.findall(asked)), asked[:100])
    values = {"integer": 2, "number": 2.0, "boolean": True, "array": [], "object": {}}
    fields = {name: schema["properties"][name] for name in schema.get("required") or ()}
    return {name: values.get(field.get("type"), quoted) for name, field in fields.items()}


def _of_schema(schema: dict[str, Any], named: dict[str, Any]) -> Any:
    """The least value that a JSON schema allows."""
    schema = named.get(schema.get("$ref", "").rpartition("/")[2], schema)
    fixed = schema.get("enum") or [schema[key] for key in ("const", "default") if key in schema]
    if fixed:
        return fixed[0]
    if "anyOf" in schema:
        return _of_schema(schema["anyOf"][0], named)
    if schema.get("type") == "object":
        fields = schema.get("properties") or {}
        return {name: _of_schema(fields.get(name, {}), named) for name in schema.get("required") or fields}
    return {"integer": 1, "number": 1.0, "boolean": True, "array": [], "null": None}.get(schema.get("type", ""), "x")


def _solve(asked: str, conversation: str, number: int) -> str:
    """The right answer, where the text tells what that is; else some copy of the question."""
    if sums := SUM.findall(asked):
        return _of_options(str(sum(map(int, sums[-1]))), asked)
    if NAMES.search(asked):
        return _sorted(conversation)
    if len(choices := CHOICE.findall(asked)) > 1:
        return f"[{choices[number // 4 % len(choices)]}]"
    if "everse" in conversation:
        return asked[::-1]
    return asked[-2000:]


def _of_options(value: str, asked: str) -> str:
    """The letter before a value in a list of options; the value itself without one."""
    letter = re.search(OPTION.format(value=re.escape(value)), asked, re.MULTILINE)
    return letter[1] if letter else value


def _sorted(conversation: str) -> str:
    """All names so far, one a line, by first name or by last; the last turn's marked as new unless they are all."""
    turns = [(how, found.split(", ")) for how, found in NAMES.findall(conversation)]
    new = set(turns[-1][1]) if len(turns) > 1 else set()
    key: Callable[[str], str] = _last_name if "LAST" in turns[-1][0] else str
    names = sorted((name for _, found in turns for name in found), key=key)
    return "\n".join(f"{name} // new name!" if name in new else name for name in names)


def _last_name(name: str) -> str:
    return re.sub(r"^.[^A-Z]*", "", name)


def _worded(found: str, asked: str) -> str:
    """In the tags of the prompt, boxed, and on a last line: whatever the prompt wants."""
    tags = [name for name in dict.fromkeys(TAGS.findall(asked)) if "think" not in name and "reason" not in name]
    if tags:
        return "\n".join(f"<{tag}>\n{found}\n</{tag}>" if "\n" in found else f"<{tag}>{found}</{tag}>" for tag in tags)
    if "boxed" in asked:
        return f"So it is \\boxed{{{found}}}"
    if "####" in asked:
        return f"So it is\n#### {found}"
    return found
