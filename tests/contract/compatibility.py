"""What a release says and takes on the wire, written down, and whether another release understands it.

`python -m tests.contract.compatibility` writes golden/protocol/RELEASE.json: once for each release, before its tag.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from envhub import __version__, protocol
from envhub.protocol.base import Request, Response
from envhub.protocol.placing.releases import PROTOCOL
from pydantic import BaseModel

GOLDEN = Path(__file__).parent / "golden" / "protocol"
SILENT = {"title", "description", "default", "examples"}  # of a schema: they change nothing on the wire
LARGEST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
SMALLEST = ("minimum", "exclusiveMinimum", "minLength", "minItems")
Schema = dict[str, Any]


def written() -> Schema:
    """Every type of the protocol: its fields, which of them must be there, and the values of enumerations."""
    told: Schema = {"protocol": PROTOCOL, "requests": {}, "responses": {}, "enums": {}}
    kinds = sorted(_types(), key=lambda one: one.__name__)
    assert len(kinds) == len({kind.__name__ for kind in kinds}), "two types of one name"
    for kind in kinds:
        if issubclass(kind, StrEnum):
            told["enums"][kind.__name__] = [item.value for item in kind]
            continue
        schema = kind.model_json_schema(ref_template="{model}")
        fields = {name: _plain(field) for name, field in schema.get("properties", {}).items()}
        entry = {"fields": fields, "required": sorted(schema.get("required", ()))}
        told["requests" if issubclass(kind, Request) else "responses"][kind.__name__] = entry
    return told


def _types() -> Iterator[type[BaseModel] | type[StrEnum]]:
    for module in pkgutil.walk_packages(protocol.__path__, f"{protocol.__name__}."):
        for found in vars(import_module(module.name)).values():
            if isinstance(found, type) and found.__module__ == module.name:
                is_ours = issubclass(found, Request | Response) and found not in (Request, Response)
                generic = is_ours and found.__pydantic_generic_metadata__["parameters"]  # type: ignore[attr-defined]
                if (is_ours and not generic) or issubclass(found, StrEnum):
                    yield found


def _plain(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if key not in SILENT}
    return [_plain(item) for item in schema] if isinstance(schema, list) else schema


def problems(earlier: Schema, later: Schema) -> Iterator[str]:
    """What a client of the earlier release, with a hub of the later one, would fail at."""
    for side in ("requests", "responses"):
        for name, was in earlier[side].items():
            now = later[side].get(name)
            if now is None:
                yield f"{name} is gone"
                continue
            for field in sorted(set(now["required"]) - set(was["required"])):
                yield f"{name}.{field} is required, and the earlier release does not send it"
            for field, schema in was["fields"].items():
                yield from _field_problems(f"{name}.{field}", schema, now["fields"].get(field), side)
    for name, values in earlier["enums"].items():
        there = later["enums"].get(name, [])
        if gone := sorted(set(values) - set(there)):
            yield f"{name} takes no {', '.join(gone)} any more"
        if new := sorted(set(there) - set(values)):
            yield f"{name} may be {', '.join(new)}, which the earlier release cannot read"


def _field_problems(name: str, was: Schema, now: Schema | None, side: str) -> Iterator[str]:
    if now is None:
        yield f"{name} is gone"
    elif side == "requests" and not accepts(now, was):
        yield f"{name} takes less than it did: {was} -> {now}"
    elif side == "responses" and not accepts(was, now):
        yield f"{name} may be what the earlier release cannot read: {was} -> {now}"


def accepts(wide: Any, narrow: Any) -> bool:
    """Whether all that `narrow` describes is also described by `wide`."""
    if wide in ({}, narrow):
        return True
    if "anyOf" in narrow:
        return all(accepts(wide, part) for part in narrow["anyOf"])
    if "anyOf" in wide:
        return any(accepts(part, narrow) for part in wide["anyOf"])
    if set(wide) - set(narrow) - {"type"}:  # it bounds what the other leaves open
        return False
    return all(_within(key, wide[key], narrow.get(key)) for key in wide)


def _within(key: str, wide: Any, narrow: Any) -> bool:
    if wide == narrow:
        return True
    if narrow is None:
        return False
    if key in LARGEST or key in SMALLEST:
        return bool(narrow <= wide if key in LARGEST else narrow >= wide)
    if key == "enum":
        return set(narrow) <= set(wide)
    if key == "type":
        return (wide, narrow) == ("number", "integer")
    return key in ("items", "additionalProperties") and isinstance(narrow, dict) and accepts(wide, narrow)


if __name__ == "__main__":
    (GOLDEN / f"{__version__}.json").write_text(json.dumps(written(), indent=1, sort_keys=True) + "\n")
