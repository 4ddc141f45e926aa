"""What the run's admission rules take from the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.training.config import TrainingConfig

from workers.training.coordinator.admission import buffers_of, vocabulary_of
from workers.training.coordinator.cursor import Shelf


@pytest.mark.parametrize("config", [{"vocab_size": 64}, {"text_config": {"vocab_size": 64}, "vision_config": {}}])
def test_the_vocabulary_is_that_of_the_text_model(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert vocabulary_of(tmp_path) == 64


def test_an_environment_without_an_end_sets_nothing_aside() -> None:
    env = ({"id": "demo/math"}, {"id": "demo/endless"})
    config = TrainingConfig.model_validate({"model": "hub/tiny", "env": env, "buffer": {"easy_threshold": 1.0}})
    buffers = buffers_of(config, (Shelf("math", 1.0, 8, size=4), Shelf("endless", 1.0, 8, size=None)))
    for buffer in buffers.values():
        buffer.observe(0, 1.0)
    assert {label: buffer.state()["easy"] for label, buffer in buffers.items()} == {"math": [0], "endless": []}
