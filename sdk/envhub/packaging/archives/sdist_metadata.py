"""Removes the metadata of an earlier build from an sdist.

In a folder that was an sdist, hatchling packs the folder's PKG-INFO before the one that it writes.
"""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
from pathlib import Path


def keep_last_metadata(sdist: Path, *, mtime: int) -> None:
    """Rewrite a tar.gz that has several PKG-INFO at its top with only the last. The same input gives the same bytes."""
    with tempfile.TemporaryFile() as rewritten:
        with tarfile.open(sdist) as archive:
            stale = [member for member in archive if _is_metadata(member.name)][:-1]
            if not stale:
                return
            with tarfile.open(fileobj=rewritten, mode="w:", format=tarfile.PAX_FORMAT) as kept:
                for member in archive.getmembers():
                    if member not in stale:
                        kept.addfile(member, archive.extractfile(member) if member.isreg() else None)
        rewritten.seek(0)
        with sdist.open("wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=mtime) as packed:
            shutil.copyfileobj(rewritten, packed)


def _is_metadata(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 2 and parts[1] == "PKG-INFO"
