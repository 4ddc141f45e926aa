"""What a run's state is called in lists and while it is followed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from envhub.cli.terminal.progress import state_line
from envhub.protocol.runs import RunView


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"state": "queued", "waiting_for": "2 runs ahead"}, "queued (2 runs ahead)"),
        (
            {"state": "running", "progress": {"done": 1, "total": 9, "unit": "steps", "note": "loading"}},
            "running: loading",
        ),
        ({"state": "running", "cancel_requested": True}, "cancelling"),
        ({"state": "cancelled", "cancel_requested": True}, "cancelled"),
    ],
)
def test_a_state_says_what_it_waits_for_and_that_it_was_told_to_end(fields: dict[str, Any], line: str) -> None:
    known = {"id": "r", "kind": "serve", "owner": "a", "subject": "a/m", "subject_url": "/", "queue": "", "attempt": 1}
    view = RunView.model_validate(known | {"created_at": datetime.now(UTC), "created_by": "a"} | fields)
    assert state_line(view) == line
