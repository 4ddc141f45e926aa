"""A line as the hub would log it now."""

from __future__ import annotations

import json
import logging
from typing import Any


def line_now(formatter: logging.Formatter) -> dict[str, Any]:
    """Of this context."""
    record = logging.LogRecord("test", logging.INFO, __file__, 1, "message", None, None)
    told: dict[str, Any] = json.loads(formatter.format(record))
    return told
