"""The last migration of each app that a release has: what comes after it must go beside a hub at work.

`python -m tests.hub.migrations.baseline` writes baseline.json anew, when a release is tagged; before the first one,
whenever migrations are added.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import django
from django.db.migrations.loader import MigrationLoader

FILE = Path(__file__).with_name("baseline.json")


def newest() -> dict[str, str]:
    """App -> its last migration, of the hub's own apps."""
    loader = MigrationLoader(None)
    own = {key for key, found in loader.disk_migrations.items() if type(found).__module__.startswith("hub.")}
    return {app: max(name for label, name in own if label == app) for app in sorted({label for label, _ in own})}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hub.config.settings")
    django.setup()
    FILE.write_text(json.dumps(newest(), indent=2) + "\n")
