"""Files with secrets and records: only this user reads them; they are there whole or not at all, also after a crash.

Used by the hub and by workers.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_private(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Write `path` (0600). `replace=False`: the first writer wins, and later ones change nothing."""
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(partial, path)
        else:
            with suppress(FileExistsError):
                os.link(partial, path)
        sync_directory(path.parent)
    finally:
        Path(partial).unlink(missing_ok=True)


def sync_directory(folder: Path) -> None:
    """Make the names in a directory durable: a rename is otherwise lost when the host loses power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
