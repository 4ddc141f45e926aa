"""What evaluations between two steps ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envhub.protocol.rollouts import RolloutRecord
from envhub.protocol.training_config import TrainingConfig

from workers.training.coordinator.evaluation import Evaluations
from workers.training.coordinator.plan import RolloutRequest


@dataclass
class Asked:
    """Remembers its requests."""

    label: str = "b"
    requests: list[RolloutRequest] = field(default_factory=list)

    def size(self, split: str) -> int:
        return 1

    async def run(self, request: RolloutRequest) -> list[RolloutRecord]:
        self.requests.append(request)
        return []


async def sampling(**config: Any) -> dict[str, Any]:
    """What the one evaluated environment is asked with."""
    source, base = Asked(), {"model": "hub/tiny", "env": [{"id": "alice/a"}]}
    parsed = TrainingConfig.model_validate(base | config)
    await Evaluations(parsed, {}, {"b": source}, {}).run(0)  # type: ignore[dict-item]
    return source.requests[0].sampling


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
