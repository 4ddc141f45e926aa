"""Text of foreign origin, as index rows may hold it."""

from __future__ import annotations


def clean_text(text: str) -> str:
    """Text that JSON, UTF-8 and Postgres can hold: no NUL, no lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
