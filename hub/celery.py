"""For operators: `celery -A hub inspect active`, `control`, `events`, `flower` reach the workers of this hub.

Its settings are the hub's, HUB_* in the environment. Workers have an app of their own (workers.celery).
"""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hub.config.settings")

from hub.core.queue import celery_app

app = celery_app()
