"""A host's clock that a test may set, by a preloaded library (clock.c). Monotonic time and sleeping stay as they are.

Not libfaketime: with a clock that jumps its sleeps fail (EINVAL), and it reads a file again and again.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

COMPILER = shutil.which("cc")
SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """One for each host; `variables` belong into the environment of its processes."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        self._file, self._library = folder / name, folder / "clock.so"
        self._file.write_bytes(struct.pack("<q", 0))
        if not self._library.exists():
            assert COMPILER is not None, "there is no C compiler"
            subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", "-o", self._library, SOURCE], check=True)

    @property
    def variables(self) -> Mapping[str, str]:
        """Of a process that has this clock."""
        return {"LD_PRELOAD": str(self._library), "WRONG_BY": str(self._file)}

    def set_wrong(self, seconds: int) -> None:
        """By so much from now on, in all its processes at once. 0: right."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("<q", seconds))
