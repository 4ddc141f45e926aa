"""Writes numbers for people: pages, charts and reports have one form of each."""

from __future__ import annotations

import re

MINUS, THIN = "\u2212", "\u202f"


def whole(value: int) -> str:
    """Format a count with thin separators: "12 345"."""
    return f"{value:,}".replace(",", THIN)


def minus(text: str) -> str:
    """Give a formatted number a minus sign of its own, and no zeros in its exponent: "-2e-05" becomes "−2e−5"."""
    return re.sub(r"e([+-])0+", r"e\1", text).replace("e+", "e").replace("-", MINUS)
