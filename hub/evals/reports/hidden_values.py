"""Arguments are no place for secrets, yet some are written there: what leaves the hub's pages leaves them out."""

from __future__ import annotations

import re
from typing import Any

_SECRET = re.compile(r"secret|password|passwd|credential|api_?key|(^|_)(token|key|auth)$", re.IGNORECASE)


def hidden(value: Any) -> Any:
    """JSON without the values whose names sound like secrets."""
    if isinstance(value, dict):
        return {name: "(not shown)" if _SECRET.search(name) else hidden(item) for name, item in value.items()}
    return [hidden(item) for item in value] if isinstance(value, list) else value
