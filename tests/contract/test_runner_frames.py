"""The runner writes its frames by hand, without pydantic: golden files hold it and envhub.protocol together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.runner import COMMANDS, EVENTS, Command, Event, RolloutDone
from envhub.runner import records
from envhub.runner.adapters import Row
from envhub.runner.attempts import Attempt, Result
from envhub.runner.failures import Failure
from envhub.runner.load_error import LoadError

GOLDEN = Path(__file__).resolve().parent / "golden" / "runner"


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize(
    "name", ["hello", "described", "rollout", "rollout_failed", "rollout_file", "group", "log", "fatal"]
)
def test_every_event_is_read_back_without_loss(name: str) -> None:
    event: Event = EVENTS.validate_python(golden(name))
    written = event.model_dump(mode="json")
    assert covers(written, golden(name)), written


@pytest.mark.parametrize("name", ["load", "describe", "group_command", "cancel", "shutdown"])
def test_every_command_is_read_back_without_loss(name: str) -> None:
    command: Command = COMMANDS.validate_python(golden(name))
    assert covers(command.model_dump(mode="json"), golden(name))


def covers(written: Any, expected: Any) -> bool:
    """Whether all of `expected` is in `written`: a field that the wire type does not know would be missing."""
    if isinstance(expected, dict):
        return isinstance(written, dict) and all(
            key in written and covers(written[key], value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return len(written) == len(expected) and all(map(covers, written, expected))
    return bool(written == expected)


def test_the_record_that_the_runner_builds_has_the_golden_shape() -> None:
    row = Row(data={"prompt": [], "answer": "4"}, source=None, requires_group=False)
    result = Result(reward=1.0, metrics={"exact": 1.0}, prompt=[], completion=[], response_ids=("a",))
    frame = records.frame("g", records.build(0, "0" * 64, row, Attempt(1, {}), result), result)
    expected = golden("rollout")
    assert frame.keys() == expected.keys()
    assert frame["record"].keys() == expected["record"].keys()
    assert RolloutDone.model_validate(frame).record.reward == 1.0


def test_a_failed_rollout_has_no_reward_whatever_was_computed() -> None:
    result = Result(reward=1.0, advantage=0.5, failure=Failure("verifier", "ValueError", "broke"))
    record = records.build(0, "0" * 64, None, Attempt(0, {}), result)
    assert (record["outcome"], record["reward"], record["advantage"]) == ("failed", None, None)
    assert record["failure"].keys() == golden("rollout_failed")["record"]["failure"].keys()


def test_a_load_error_is_a_fatal_frame() -> None:
    frame = LoadError("bad_arguments", "taskset.split: Field required", "Read the page.").to_frame()
    assert frame.keys() == golden("fatal").keys()
    assert EVENTS.validate_python(frame).type == "fatal"
