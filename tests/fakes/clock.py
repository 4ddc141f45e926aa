"""A host's clock that a test may set: libfaketime in the processes of that host. Their monotonic clock goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
SEEN_AFTER_S = 1.5  # processes look at the file once a second


class Clock:
    """One for each host; `variables` belong into the environment of its processes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._file.write_text("+0\n")

    @property
    def variables(self) -> Mapping[str, str]:
        """Of a process that has this clock."""
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set_wrong(self, seconds: int) -> None:
        """By so much from now on; returns when it is. 0: right."""
        self._file.write_text(f"{seconds:+d}\n")
        time.sleep(SEEN_AFTER_S)
