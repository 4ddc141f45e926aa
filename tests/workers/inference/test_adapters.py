"""Which PEFT directories the torch engine serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch


def test_an_adapter_with_a_scale_for_each_layer_is_refused_not_served_with_another(tmp_path: Path) -> None:
    policies = pytest.importorskip("tests.contract.policies")
    adapters = pytest.importorskip("workers.inference.torch_engine.adapters")
    policies.make_adapter(tmp_path / "adapter", policies.make_policy(tmp_path / "base", 0), 1)
    assert adapters.read_adapter("a", tmp_path / "adapter").layers
    path = tmp_path / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"alpha_pattern": {"q_proj": 4}}))
    with pytest.raises(adapters.BadAdapter, match="alpha_pattern"):
        adapters.read_adapter("a", tmp_path / "adapter")
