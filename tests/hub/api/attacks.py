"""Requests as somebody would send them who tries to break the hub: real ids, bodies that are nearly right."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator

from hub.core.requests.parameters import MEANINGS

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def nested(levels: int, kind: str = "[") -> Any:
    """Lists, or tables, in one another."""
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind == "[" else {"a": value}
    return value


TEXTS = (
    *("", " ", "\x00", "a\x00b", "\ud800", "\N{RIGHT-TO-LEFT OVERRIDE}x", "é" * 300, "x" * 20_000, "../..", "a/../b"),
    *("alice/stub", "alice/confidential-env", "alice/confidential-env@" + "9" * 5000, "a@b@c", "%00", "%", "{}", "[]"),
    *("latest", "nan", "inf", "-1", "1e400", "9" * 400, "9" * 5000, "2147483648", "9223372036854775808", "0x10", "１"),
    *("http://127.0.0.1:9/v1", "http://[::127.0.0.1]/", "http://a\r\nHost: b/", "http://[", "http://a:99999/", "//"),
    *("2020-01-01", "true", "null", "<script>", "'\"; --", "\\", "\r\nSet-Cookie: a=b", "a" * 64, "0" * 64, "bytes=0-"),
    *("bytes=5-2", "bytes=a-b", 'W/"x"', "*/*;q=x", "00000000-0000-0000-0000-000000000000", "application/xml"),
)
NUMBERS = (0, -1, 1, 2**15, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 1e300, -1e-300, 0.5, -0.0)
SHAPES = (None, True, [], {}, [None], {"": None}, nested(40), nested(40, "{"), nested(250), ["x"] * 3000)
RAW = (
    *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"\xef\xbb\xbf{}", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":1e400}'),
    *(b'"\\ud800"', b'{"name":"\\ud800"}', b"[" * 100_000, b'{"a":' * 900 + b"1" + b"}" * 900),
    *(b'{"step":' + b"9" * 5000 + b"}", b'{"config":' + b"[" * 400 + b"]" * 400 + b"}"),
)
HEADERS = (
    *("If-None-Match", "If-Modified-Since", "If-Match", "Range", "Accept", "Accept-Encoding", "Accept-Language"),
    *(
        "HX-Request",
        "HX-Target",
        "HX-Current-URL",
        "Cookie",
        "Referer",
        "Origin",
        "X-Forwarded-For",
        "X-Forwarded-Host",
    ),
    *("Authorization", "Host", "X-CSRFToken", "X-HTTP-Method-Override"),
)
QUERIES = (
    *sorted(MEANINGS),
    *(
        "a",
        "b",
        "q",
        "path",
        "file",
        "tab",
        "sort",
        "settings",
        "fragment",
        "stored",
        "examples",
        "scopes",
        "user_code",
    ),
    *("size", "expires", "signature", "next", "labels", "metric", "group", "admitted", "recursive", "expand", "free"),
)
REAL = (
    *("alice/confidential-env", "alice/stub", "alice/confidential-model", "alice/base", "alice", "0.1.0", "x"),
    *("f" * 64, "CONFIDENTIAL_KEY", "http://127.0.0.1:9/v1", "localhost:1", "confidential-env"),
)


def a_text(dice: Random) -> str:
    """One that is trouble somewhere, or any."""
    if dice.random() < 0.8:
        return dice.choice(TEXTS)
    return "".join(chr(dice.choice((dice.randrange(0x80), dice.randrange(0xD800)))) for _ in range(dice.randrange(12)))


def an_oddity(dice: Random) -> Any:
    """Any JSON value that nobody expects."""
    kind = dice.choice((TEXTS, NUMBERS, SHAPES))
    return a_text(dice) if kind is TEXTS else copy.deepcopy(dice.choice(kind))


@dataclass
class Attack:
    """One request. `path` is quoted; `content` is the body as it is sent."""

    path: str
    content: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


@cache
def schema() -> Any:
    """The OpenAPI schema."""
    return SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]


@cache
def answer_checker(template: str, method: str, status: int) -> Draft202012Validator | None:
    """What an operation's JSON answer with this status must be; None where the schema says of no JSON."""
    responses = schema()["paths"][template][method]["responses"]
    said = responses.get(str(status)) or (responses["default"] if status >= 400 else {})
    shape = said.get("content", {}).get(JSON, {}).get("schema")
    return None if shape is None else Draft202012Validator({**shape, "components": schema()["components"]})


def body_schema(template: str, method: str) -> Any:
    """The schema of an operation's JSON body, None where it takes none. `template` is as in the schema's paths."""
    content = schema()["paths"].get(template, {}).get(method, {}).get("requestBody", {}).get("content", {})
    return content.get(JSON, {}).get("schema")


def valid(dice: Random, shape: Any, depth: int = 0) -> Any:
    """A value that the schema allows, as far as it says."""
    if "$ref" in shape:
        return valid(dice, schema()["components"]["schemas"][shape["$ref"].rpartition("/")[2]], depth)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in shape:
            return valid(dice, dice.choice(shape[several]), depth)
    if "enum" in shape:
        return dice.choice(shape["enum"])
    match shape.get("type"):
        case "object" if "properties" in shape:
            wanted = set(shape.get("required", ()))
            names = [name for name in shape["properties"] if name in wanted or (depth < 4 and dice.random() < 0.5)]
            return {name: valid(dice, shape["properties"][name], depth + 1) for name in names}
        case "object":
            return {"key": 1}
        case "array":
            count = 0 if depth > 4 else dice.choice((shape.get("minItems", 0), 1, 2))
            return [valid(dice, shape.get("items") or {}, depth + 1) for _ in range(count)]
        case "string":
            fitting = [text for text in REAL if re.search(shape.get("pattern", ""), text)]
            return dice.choice(fitting or REAL)
        case "integer" | "number":
            return dice.choice((1, 0, shape.get("minimum", 2), shape.get("maximum", 3)))
        case "boolean":
            return dice.random() < 0.5
    return shape.get("const")


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a body, as far as a body goes."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:5]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        if len(at) < 8:
            yield from places(item, (*at, key))


def spoiled(dice: Random, body: Any) -> Any:
    """The body with one to three values replaced, left out or added."""
    body = json.loads(json.dumps(body))
    for _ in range(dice.randint(1, 3)):
        known = list(places(body))
        if not known or dice.random() < 0.1:
            if isinstance(body, dict):
                body[dice.choice(QUERIES)] = an_oddity(dice)
            continue
        *above, last = dice.choice(known)
        holder = body
        for key in above:
            holder = holder[key]
        if dice.random() < 0.2:
            del holder[last]
        else:
            holder[last] = an_oddity(dice)
    return body


def an_attack(dice: Random, path: str, known: dict[str, Any], body: dict[str, Any], shape: Any) -> Attack:
    """A request to a route: `path` with {name} for its arguments, `known` what they are, `body` one that works."""
    arguments = {name: quote(str(value), safe="/") for name, value in known.items()}
    if arguments and dice.random() < 0.2:
        arguments[dice.choice(sorted(arguments))] = quote(_sendable(a_text(dice)), safe="")
    query = [(dice.choice(QUERIES), _sendable(a_text(dice))) for _ in range(dice.choice((0, 0, 1, 1, 2, 3)))]
    attack = Attack("/" + path.format(**arguments) + (f"?{urlencode(query)}" if query else ""))
    attack.content = _content(dice, body, shape)
    if dice.random() < 0.05:
        attack.content_type = dice.choice((f"{JSON}; charset=none", "text/plain", "", "multipart/form-data", FORM))
    if dice.random() < 0.2:
        value = re.sub(r"[\x00-\x1f]", "", a_text(dice).encode("ascii", "replace").decode())
        attack.headers[dice.choice(HEADERS)] = value
    return attack


def a_form(dice: Random, names: tuple[str, ...]) -> bytes:
    """The body of a page's form."""
    chosen = dice.sample(names, min(len(names), dice.randrange(8)))
    return urlencode({name: _sendable(dice.choice((a_text(dice), dice.choice(REAL)))) for name in chosen}).encode()


def _content(dice: Random, body: dict[str, Any], shape: Any) -> bytes:
    way = dice.random()
    if way < 0.1:
        return dice.choice(RAW)
    base = valid(dice, shape) if shape is not None and way > 0.5 else body
    if base and way > 0.2:
        base = spoiled(dice, base)
    try:
        return json.dumps(base).encode()
    except ValueError:  # a number of too many digits
        return b'{"number": ' + b"9" * 5000 + b"}"


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
