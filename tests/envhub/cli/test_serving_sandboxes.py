"""`hub sandbox serve` and signals; with a hub: tests/e2e/test_user_sandboxes.py."""

from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, datetime

import pytest
from envhub.cli.sandboxes import serve
from envhub.protocol.sandboxes.sandboxes import SiblingsAddress

ADDRESS = SiblingsAddress(url="http://hub.test/prime", variables={"A": "b"}, expires_at=datetime.now(UTC))


@pytest.mark.parametrize(
    ("number", "program"), [(signal.SIGTERM, "exec sleep 60"), (signal.SIGINT, "sleep 1; exit 143")]
)
def test_a_program_that_is_to_end_is_waited_for(number: signal.Signals, program: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
    timer.start()
    try:
        assert serve._run(["sh", "-c", f'test "$A" = b && {{ {program}; }}'], ADDRESS) == 143
    finally:
        timer.cancel()
        signal.signal(signal.SIGTERM, before)
