"""What the run's admission rules take from the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workers.training.coordinator.admission import vocabulary_of


@pytest.mark.parametrize("config", [{"vocab_size": 64}, {"text_config": {"vocab_size": 64}, "vision_config": {}}])
def test_the_vocabulary_is_that_of_the_text_model(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert vocabulary_of(tmp_path) == 64
