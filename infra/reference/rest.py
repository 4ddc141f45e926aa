"""Every operation of the REST API with its parameters, body and answer, from the schema that the hub serves."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import django

Node = Mapping[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
LONGEST_CHOICE = 80  # characters of the values of an enumeration
INTRODUCTION = """# REST API
All addresses are below your hub's, for example `https://hub.example.org/api/v1/me`. Send a token from Settings or
`hub token create` as `Authorization: Bearer TOKEN`. Bodies and answers are JSON unless said otherwise. A refusal has
the form `{"error": {"code", "message", "hint", "fields"}}`; [error codes](errors.md) says what each code means. Lists
take `limit` and `before`; their answer's `next` is the `before` of the following page. A field with `?` may be absent.

`/api/v1/schema` is the OpenAPI schema of your hub, and `/api/v1/docs` a page on which you can try each call.
"""


def rest_page() -> str:
    """Return the page as Markdown, with a section for each subject in the schema's order."""
    schema = served_schema()
    types: Node = schema["components"]["schemas"]
    subjects: dict[str, list[str]] = defaultdict(list)
    for path, operations in schema["paths"].items():
        for method in METHODS:
            if method in operations:
                operation = operations[method]
                subjects[operation["tags"][0]].append(_operation(f"{method.upper()} {path}", operation, types))
    places = {tag["name"]: place for place, tag in enumerate(schema["tags"])}
    names = sorted(subjects, key=lambda name: places[name])
    return "\n".join([INTRODUCTION, *(f"## {name}\n" + "\n".join(subjects[name]) for name in names)])


def served_schema() -> Node:
    """Return the OpenAPI schema."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hub.config.settings")
    django.setup()
    from drf_spectacular.generators import SchemaGenerator  # noqa: PLC0415  needs the settings

    found: Node = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found


def _operation(name: str, operation: Node, types: Node) -> str:
    lines = [f"### {name}", _sentence(operation.get("summary", ""))]
    if told := operation.get("description", ""):
        lines += ["", _plain(told)]
    rows = [
        f"| `{one['name']}` | {_type(one['schema'])}{', in the path' if one['in'] == 'path' else ''} | "
        f"{_cell(one.get('description', ''))} |"
        for one in operation.get("parameters", ())
    ]
    lines += ["", "| Parameter | Type | Meaning |", "|---|---|---|", *rows] if rows else []
    body = operation.get("requestBody", {}).get("content", {})
    lines += ["", *_content("Body", body, types)] if body else []
    lines += ["", *_answer(operation["responses"], types), ""]
    return "\n".join(lines)


def _answer(responses: Node, types: Node) -> Iterator[str]:
    alike: dict[str, list[str]] = defaultdict(list)  # what is answered -> by which statuses
    for status, response in responses.items():
        if status != "default":
            content = response.get("content", {})
            told = "\n".join(_content("", content, types)) if content else ", without a body."
            alike[told].append(str(status))
    for told, statuses in alike.items():
        yield f"Answer {' or '.join(statuses)}{told}"


def _content(what: str, content: Node, types: Node) -> Iterator[str]:
    for media, told in content.items():
        schema = told.get("schema", {})
        kind = "" if media == "application/json" else f" ({media})"
        yield f"{what}{kind}: {_type(schema)}{_fields(schema, types)}."


def _fields(schema: Node, types: Node) -> str:
    found = types.get(_name(schema), {})
    required = set(found.get("required", ()))
    names = [f"`{name}`{'' if name in required else '?'}" for name in found.get("properties", {})]
    return f" with {', '.join(names)}" if names else ""


def _type(schema: Node) -> str:
    if name := _name(schema):
        return f"`{name}`"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            kinds = [_type(one) for one in schema[several] if one.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds)) or "null"
    if choices := schema.get("enum"):
        text = ", ".join(f"`{value}`" for value in choices)
        return text if len(text) <= LONGEST_CHOICE else f"one of {len(choices)} values"
    if schema.get("format") == "binary":
        return "a file"
    kind = schema.get("type", "any value")
    return f"list of {_type(schema.get('items', {}))}" if kind == "array" else str(kind)


def _name(schema: Node) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _sentence(text: str) -> str:
    text = _plain(text)
    return text if not text or text.endswith(".") else f"{text}."


def _plain(text: str) -> str:
    return text.strip().replace("<", "&lt;")


def _cell(text: str) -> str:
    return " ".join(_plain(text).split()).replace("|", "\\|")
