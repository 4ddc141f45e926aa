"""The demo shows its own evaluations, and makes none twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from infra.demo.hub import Cli
from infra.demo.steps import evaluation_of

TASK = {"length": 4}


@dataclass
class OneEvaluation:
    """Stands for the demo's command line, on a hub with one evaluation; `started` are the new ones."""

    known: dict[str, Any]
    started: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, *arguments: str) -> Any:
        """The list, or a new evaluation."""
        if arguments[:2] == ("eval", "list"):
            return [self.known]
        self.started.append(arguments)
        return {"id": "new"}


def evaluation(**changes: Any) -> dict[str, Any]:
    config = {"num_examples": 20, "rollouts_per_example": 4, "env_args": {}, **changes.pop("config", {})}
    made = {"id": "old", "environment": "demo/x", "version": "0.1.0", "state": "succeeded", "config": config}
    return made | changes


@pytest.mark.parametrize(
    "other",
    [
        {"config": {"num_examples": 50, "env_args": TASK}},
        {"version": "0.2.0"},
        {"state": "failed"},
    ],
)
def test_an_evaluation_by_other_settings_is_not_shown_in_place_of_the_demos_own(other: dict[str, Any]) -> None:
    cli = OneEvaluation(evaluation(**other))
    assert evaluation_of(cast(Cli, cli), "demo/x@0.1.0", "hub/tiny", 20, 4)["id"] == "new"
    assert len(cli.started) == 1


def test_a_second_demo_shows_what_the_first_has_evaluated() -> None:
    cli = OneEvaluation(evaluation(config={"num_examples": 50, "env_args": TASK}))
    assert evaluation_of(cast(Cli, cli), "demo/x@0.1.0", "hub/tiny", 50, 4, TASK)["id"] == "old"
    assert cli.started == []
