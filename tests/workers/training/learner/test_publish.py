"""What a fully trained model is published as."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3ForCausalLM

from tests.workers.training.learner.making import model
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.model import make_policy
from workers.training.learner.publish import publish
from workers.training.learner.step import Learner
from workers.training.learner.world import World

pytestmark = pytest.mark.torch


def test_a_tied_head_is_published_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = LearnerConfig(mode="full")
    learner = Learner(make_policy(model(tied=True), config), config, World())
    real = torch.Tensor.to
    # a GPU's tensors come to the host as copies
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *given, **named: real(self, *given, **named).clone())
    publish(learner, RunDir(tmp_path))
    monkeypatch.undo()
    version = RunDir(tmp_path).version(0)
    assert "lm_head.weight" not in load_file(version / "model.safetensors")
    assert torch.equal(Qwen3ForCausalLM.from_pretrained(version).lm_head.weight, learner.policy.head)
