"""The command that measures what a run has made."""

from __future__ import annotations

import pytest
from envhub.protocol.base import JsonObject
from envhub.protocol.training.command import evaluation_flags, evaluation_like
from envhub.protocol.training.config import TrainingConfig


@pytest.mark.parametrize(
    ("config", "flags"),
    [
        ({"env": [{"id": "a/b"}], "sampling": {}}, ""),
        (
            {"env": [{"id": "a/b", "args": {"length": 4}}, {"id": "c/d"}], "sampling": {"max_tokens": 8}},
            """-a '{"length": 4}' -t 8""",
        ),
        (
            {"env": [{"sampling": {"max_tokens": 9}}], "sampling": {"max_tokens": 8, "temperature": 0.7}},
            "-t 9 -T 0.7",
        ),
        ({"env": [{"sampling": {"max_tokens": None}}], "sampling": {"max_tokens": 8}}, "-t 8"),
        ({"env": []}, ""),
    ],
)
def test_a_model_is_measured_as_it_was_trained(config: JsonObject, flags: str) -> None:
    assert evaluation_flags(config) == flags


def test_an_evaluation_is_made_as_a_run_makes_its_rollouts_at_a_step() -> None:
    run = {
        "model": "m",
        "max_steps": 5,
        "secrets": ("WANDB_API_KEY", "TOOL_KEY"),
        "allow_hosts": ("a:1",),
        "sampling": {"max_tokens": 64, "temp_scheduler": {"start_temperature": 1.0, "end_temperature": 0.6}},
        "env": [
            {"id": "a/b"},
            {"id": "a/c", "split": "eval", "allow_hosts": ("b:2", "a:1"), "sampling": {"max_tokens": 8}},
        ],
    }
    config = TrainingConfig.model_validate(run)
    first, second = evaluation_like(config, 0, 3), evaluation_like(config, 1, 5)
    assert (first["split"], first["sampling"]) == ("train", {"max_tokens": 64, "temperature": 0.8})
    assert (second["split"], second["sampling"]) == ("eval", {"max_tokens": 8, "temperature": 0.6})
    assert (second["secrets"], second["allow_hosts"]) == (("TOOL_KEY",), ("a:1", "b:2"))
