"""How values lie in the cache where that is Redis: as JSON.

Workers may reach that Redis, and a pickle would run as code in the hub.
"""

from __future__ import annotations

import json
from typing import Any


class JsonSerializer:
    """What Django's RedisCache asks for."""

    def dumps(self, value: Any) -> bytes:
        """As text; whatever JSON cannot hold is an error of the caller's."""
        return json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        """The value again; lists stay lists."""
        return json.loads(data)
