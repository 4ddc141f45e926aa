"""The command that measures what a run has made."""

from __future__ import annotations

import pytest
from envhub.protocol.base import JsonObject
from envhub.protocol.training.command import evaluation_flags


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
