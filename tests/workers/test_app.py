"""The listener's Celery app."""

from __future__ import annotations

import os
import subprocess
import sys

LISTENER = """
import sys
from workers.app import BrokerSettings, make_app
make_app(BrokerSettings(url="memory://", options={}, queues=("eval",)), 1).Worker(pool="solo")
sys.exit("hub" in sys.modules)
"""


def test_a_listener_started_by_the_hub_loads_no_hub() -> None:
    """An embedded worker inherits the hub's environment, and Celery sets up the Django that it finds there."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "hub.config.settings"}
    assert subprocess.run([sys.executable, "-c", LISTENER], env=environment, check=False).returncode == 0
