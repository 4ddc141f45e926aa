"""The two files by which a GPU is shared: tokens, written whole or not at all. Free of torch; see learner.turns."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def read_token(path: Path) -> str:
    """Empty for none."""
    with suppress(OSError):
        return path.read_text()
    return ""


def write_token(path: Path, token: str) -> None:
    """Replaces what was there."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_text(token)
    unfinished.replace(path)
