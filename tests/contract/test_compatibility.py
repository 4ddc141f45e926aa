"""A hub takes what every earlier release of its protocol sends, and answers what these can read."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.placing.releases import OLDEST, PROTOCOL, mismatch

from tests.contract.compatibility import GOLDEN, accepts, problems, written

RELEASES = sorted(GOLDEN.glob("*.json"))
NOW = written()


def changed(side: str, name: str, **changes: Any) -> dict[str, Any]:
    later = deepcopy(NOW)
    later[side][name].update(changes)
    return later


def without(side: str, name: str, field: str) -> dict[str, Any]:
    later = deepcopy(NOW)
    del later[side][name]["fields"][field]
    return later


def with_field(side: str, name: str, field: str, schema: Any) -> dict[str, Any]:
    later = deepcopy(NOW)
    later[side][name]["fields"][field] = schema
    return later


@pytest.mark.parametrize("file", RELEASES, ids=lambda file: file.stem)
def test_clients_of_an_earlier_release_work_with_this_hub(file: Path) -> None:
    earlier = json.loads(file.read_text())
    if earlier["protocol"] < OLDEST:
        pytest.skip("this hub refuses that release")
    assert list(problems(earlier, NOW)) == [], "raise envhub.protocol.placing.releases.PROTOCOL, or keep what there was"


def test_every_release_is_written_down() -> None:
    assert RELEASES
    assert max(json.loads(file.read_text())["protocol"] for file in RELEASES) == PROTOCOL


BREAKING = {
    "a field of a request is gone": without("requests", "JoinRequest", "facts"),
    "a field of an answer is gone": without("responses", "JoinReply", "broker_url"),
    "a request needs a new field": changed("requests", "JoinRequest", required=["mood"]),
    "a request takes fewer numbers": with_field("requests", "Heartbeat", "progress", {"type": "null"}),
    "an answer has another type": with_field("responses", "RunView", "attempt", {"type": "string"}),
    "an answer may be null": with_field(
        "responses", "RunView", "queue", {"anyOf": [{"type": "string"}, {"type": "null"}]}
    ),
    "a state less": {**NOW, "enums": NOW["enums"] | {"RunState": NOW["enums"]["RunState"][1:]}},
    "a state that nobody knows": {**NOW, "enums": NOW["enums"] | {"RunState": [*NOW["enums"]["RunState"], "asleep"]}},
}
HARMLESS = {
    "a new field of a request": with_field("requests", "JoinRequest", "mood", {"type": "string"}),
    "a new field of an answer": with_field("responses", "JoinReply", "mood", {"type": "string"}),
    "a request takes more": with_field(
        "requests", "FinishRequest", "failure", {"anyOf": [{"$ref": "Failure"}, {"type": "null"}, {"type": "string"}]}
    ),
}


@pytest.mark.parametrize("name", BREAKING)
def test_a_change_that_an_older_client_would_fail_at_is_found(name: str) -> None:
    assert len(list(problems(NOW, BREAKING[name]))) == 1


@pytest.mark.parametrize("name", HARMLESS)
def test_a_change_that_older_clients_pass_over_is_none(name: str) -> None:
    assert list(problems(NOW, HARMLESS[name])) == []


def test_bounds_may_grow_for_requests_and_shrink_for_answers() -> None:
    small, large = {"type": "integer", "maximum": 5}, {"type": "integer", "maximum": 9}
    assert accepts(large, small)
    assert not accepts(small, large)
    assert accepts({"type": "integer"}, small)
    assert not accepts(small, {"type": "integer"})


@pytest.mark.parametrize(
    ("told", "code"),
    [(PROTOCOL, None), (PROTOCOL + 1, "hub_too_old"), (OLDEST - 1, "client_too_old"), ("x", "client_too_old")],
)
def test_who_must_be_upgraded_is_said(told: int | str, code: str | None) -> None:
    found = mismatch(str(told), "9.9")
    assert (found and found.code) == code
