"""What evaluations between two steps ask for."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, Turn, Usage
from envhub.protocol.training.config import TrainingConfig

from workers.training.coordinator.evaluation import Evaluations
from workers.training.coordinator.plan import RolloutRequest


@dataclass
class Asked:
    """Remembers its requests."""

    label: str = "b"
    requests: list[RolloutRequest] = field(default_factory=list)

    def size(self, split: str) -> int:
        return 1

    def rows_of(self, split: str) -> str:
        return "train"

    async def run(self, request: RolloutRequest) -> list[RolloutRecord]:
        self.requests.append(request)
        return []


async def sampling(**config: Any) -> dict[str, Any]:
    """What the one evaluated environment is asked with."""
    source, base = Asked(), {"model": "hub/tiny", "env": [{"id": "alice/a"}]}
    parsed = TrainingConfig.model_validate(base | config)
    await Evaluations(parsed, {}, {"b": source}, {}).run(0)  # type: ignore[dict-item]
    return source.requests[0].sampling


async def test_a_point_says_how_many_examples_of_which_split() -> None:
    config = TrainingConfig.model_validate(
        {"model": "m", "env": [{"id": "a/a"}], "eval": {"env": [{"id": "a/b"}]}, "val": {"num_examples": 1}}
    )
    source = Asked()
    made = Evaluations(config, {"a": source}, {"b": source}, {"a": 1})  # type: ignore[dict-item]
    assert [(point.label, point.examples, point.split) for point in await made.run(0)] == [
        ("b", 1, "train"),
        ("val", 1, "held out"),
    ]
    assert made.trained_on() == ("b",)


async def test_eval_sampling_lies_over_the_runs_key_by_key() -> None:
    own = {"id": "alice/b", "sampling": {"reasoning_effort": "low"}}
    asked = await sampling(
        sampling={"max_tokens": 7, "temp_scheduler": {"start_temperature": 1.0, "end_temperature": 0.5}},
        eval={"sampling": {"extra_body": {"top_p": 0.9}}, "env": [own]},
    )
    assert asked == {
        "max_tokens": 7,
        "temperature": 0.5,
        "reasoning_effort": "low",
        "extra_body": {"top_p": 0.9},
    }


async def test_validation_samples_as_its_environment_does_in_training_at_the_last_steps_temperature() -> None:
    schedule = {"start_temperature": 1.0, "end_temperature": 0.5, "total_steps": 21}
    own = {"id": "alice/b", "sampling": {"max_tokens": 99, "temp_scheduler": schedule}}
    config = TrainingConfig.model_validate(
        {"model": "m", "max_steps": 11, "sampling": {"max_tokens": 7}, "env": [own], "val": {"num_examples": 1}}
    )
    source = Asked()
    await Evaluations(config, {"b": source}, {}, {"b": 1}).run(0)  # type: ignore[dict-item]
    assert [request.sampling for request in source.requests] == [{"max_tokens": 99, "temperature": 0.75}]


async def test_a_groups_name_can_stand_in_a_path_whatever_the_environment_is_called() -> None:
    table = {"id": "alice/b", "name": "maths/hard? 50%"}
    config = TrainingConfig.model_validate({"model": "m", "env": [{"id": "a/a"}], "eval": {"env": [table]}})
    source = Asked("maths/hard? 50%")
    await Evaluations(config, {}, {source.label: source}, {}).run(0)  # type: ignore[dict-item]
    assert [request.name for request in source.requests] == ["maths_hard__50_-0-maths_hard__50_-0"]


@dataclass
class Talkative(Asked):
    """Its rollouts have turns; `kept` is how many of them were still in memory when another was asked for."""

    turns: list[weakref.ref[Turn]] = field(default_factory=list)
    kept: int = 0

    def size(self, split: str) -> int:
        return 20

    async def run(self, request: RolloutRequest) -> list[RolloutRecord]:
        self.kept = max(self.kept, sum(turn() is not None for turn in self.turns))
        turn = Turn(index=0, protocol="chat", model="m", request={}, response={})
        self.turns.append(weakref.ref(turn))
        usage, metrics = Usage(completion_tokens=3), {"exact": 0.5}
        return [
            RolloutRecord(
                example=request.example,
                rollout=0,
                example_hash="0" * 64,
                outcome=Outcome.OK,
                reward=0.5,
                metrics=metrics,
                usage=usage,
                turns=(turn,),
            )
        ]


async def test_of_an_evaluations_rollouts_only_the_figures_stay_in_memory() -> None:
    source = Talkative()
    evaluated = {"num_examples": -1, "env": [{"id": "alice/b"}]}
    config = TrainingConfig.model_validate({"model": "hub/tiny", "env": [{"id": "alice/a"}], "eval": evaluated})
    (point,) = await Evaluations(config, {}, {"b": source}, {}).run(0)  # type: ignore[dict-item]
    assert (point.rollouts, point.reward_mean, point.completion_tokens_mean) == (20, 0.5, 3)
    assert point.metrics == {"exact": 0.5}
    assert source.kept <= 1


@dataclass
class Certain(Asked):
    """Gives every rollout of its four examples the same reward."""

    reward: float = 0.0

    def size(self, split: str) -> int:
        return 4

    async def run(self, request: RolloutRequest) -> list[RolloutRecord]:
        row = RolloutRecord(
            example=request.example, rollout=0, example_hash="0" * 64, outcome=Outcome.OK, reward=self.reward
        )
        return [row]


async def test_equal_numbers_are_different_examples_in_different_environments() -> None:
    tables = [{"id": "alice/a"}, {"id": "alice/b"}]
    config = TrainingConfig.model_validate({"model": "hub/tiny", "env": tables, "val": {"num_examples": 3}})
    labels = [table.label for table in config.env]
    sources = {labels[0]: Certain(reward=0.0), labels[1]: Certain(reward=1.0)}
    held_out = {labels[0]: 2, labels[1]: 1}  # examples 2 and 3 of the one, 3 of the other
    (point,) = await Evaluations(config, sources, {}, held_out).run(0)  # type: ignore[arg-type]
    assert point.reward_mean == pytest.approx(1 / 3)
    assert point.reward_std_error == pytest.approx(1 / 3)
