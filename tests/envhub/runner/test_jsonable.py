"""Whatever an environment puts into a row becomes JSON, and equal rows hash equally."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from envhub.runner.jsonable import canonical_hash, to_json


class Opaque:
    pass


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@dataclass
class Point:
    x: int


def test_values_without_a_json_form_become_their_repr() -> None:
    value = to_json({"o": Opaque(), "h": Hostile(), "s": {3}, 4: b"x"})
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert "Opaque" in value["o"]
    assert value["h"] == "<Hostile>"
    assert value["4"] == "b'x'"


def test_known_objects_keep_their_content() -> None:
    assert to_json([Point(2), datetime(2026, 1, 1, tzinfo=UTC)]) == [{"x": 2}, "2026-01-01T00:00:00+00:00"]


def test_floats_that_json_does_not_know_become_text() -> None:
    assert to_json([float("nan"), float("inf"), 1.5]) == ["nan", "inf", 1.5]


def test_lone_surrogates_do_not_reach_the_wire() -> None:
    json.dumps(to_json("a\ud800b"), ensure_ascii=False).encode()


def test_endless_nesting_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    json.dumps(to_json(loop))


def test_the_hash_ignores_key_order_and_addresses() -> None:
    assert canonical_hash({"a": 1, "b": Opaque()}) == canonical_hash({"b": Opaque(), "a": 1})
    assert canonical_hash({"a": 1}) != canonical_hash({"a": 2})


@dataclass
class Node:
    parent: Node | None
    children: list[Node]


def test_what_holds_itself_is_written_once() -> None:
    root = Node(None, [])
    root.children = [Node(root, []) for _ in range(50)]  # each leads back to all of them
    leaf = {"parent": "...", "children": []}
    assert to_json(root) == {"parent": None, "children": [leaf] * 50}
    loop: list[object] = [1]
    loop.append(loop)
    assert to_json([loop, loop]) == [[1, "..."], [1, "..."]]
