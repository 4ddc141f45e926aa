"""A file system of a few megabytes, which a test may fill. Mounting one needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNK = bytes(64 * 1024)


class SmallDisk:
    """Made by `small_disk`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / ".filler"

    def fill(self) -> None:
        """Leave no byte: again, when something was deleted meanwhile."""
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(CHUNK if self.free >= len(CHUNK) else CHUNK[:4096])

    def empty(self) -> None:
        """The operator makes room."""
        self._filler.unlink(missing_ok=True)

    @property
    def free(self) -> int:
        """Bytes."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mounted at `path` inside the context."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)], check=True)
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def can_mount() -> bool:
    """Whether `small_disk` may work here."""
    return os.geteuid() == 0
