"""Version 0 of a LoRA policy answers exactly like its base model."""

from __future__ import annotations

from pathlib import Path

import pytest

policies = pytest.importorskip("tests.contract.policies")
engine = pytest.importorskip("workers.inference.torch_engine.adapters")
torch = pytest.importorskip("torch")
from workers.training.coordinator.zero_adapter import write_zero_adapter  # noqa: E402

pytestmark = pytest.mark.torch


def test_it_changes_nothing(tmp_path: Path) -> None:
    base = policies.make_policy(tmp_path / "base", 0)
    write_zero_adapter(tmp_path / "v0", tmp_path / "base", rank=4, alpha=8, targets=["q_proj", "down_proj"])
    ids = torch.tensor([[4, 60, 61]])
    with torch.inference_mode():
        plain = base.model(input_ids=ids).logits
        adapters = engine.Adapters(base.model)
        adapter = adapters.load("v0", tmp_path / "v0")
        adapters.use([adapter])
        assert len(adapter.layers) == 4
        assert torch.equal(base.model(input_ids=ids).logits, plain)


def test_a_model_without_such_layers_is_refused(tmp_path: Path) -> None:
    policies.make_policy(tmp_path / "base", 0)
    with pytest.raises(ValueError, match="wi_0"):
        write_zero_adapter(tmp_path / "v0", tmp_path / "base", rank=4, alpha=8, targets=["wi_0"])


def test_a_layer_that_is_no_matrix_is_none_of_them(tmp_path: Path) -> None:
    policies.make_policy(tmp_path / "base", 0)
    with pytest.raises(ValueError, match="no layer named input_layernorm"):
        write_zero_adapter(tmp_path / "v0", tmp_path / "base", rank=4, alpha=8, targets=["input_layernorm"])
