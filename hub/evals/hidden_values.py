"""What of a configuration is shown to people who are not members of its owner.

Values that look like secrets are hidden: arguments are no place for them, but some people put them there anyway.
"""

from __future__ import annotations

import re
from typing import Any

_SECRET = re.compile(r"secret|password|passwd|credential|api_?key|(^|_)(token|key|auth)$", re.IGNORECASE)


_INSIDE = {"judges", "allow_hosts", "secrets"}  # names of private models, of hosts and of secrets


def shown_outside(config: Any) -> Any:
    """Return a configuration without what is its owner's alone, in all its tables."""
    if isinstance(config, dict):
        kept = {name: value for name, value in config.items() if name not in _INSIDE or not value}
        return hidden({name: shown_outside(value) for name, value in kept.items()})
    return [shown_outside(item) for item in config] if isinstance(config, list) else config


def hidden(value: Any) -> Any:
    """Replace all values in a JSON value whose names look like those of secrets."""
    if isinstance(value, dict):
        shown = {name: hidden(item) for name, item in value.items()}
        return {name: "(not shown)" if item and _SECRET.search(name) else item for name, item in shown.items()}
    return [hidden(item) for item in value] if isinstance(value, list) else value
