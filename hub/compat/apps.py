"""App configuration."""

from datetime import timedelta

from django.apps import AppConfig

from hub.core.pruning import Pruning
from hub.runs.chores import register_chore

KEPT = timedelta(days=2)  # uploads that nobody has finished, and what tells a repeated one


class CompatConfig(AppConfig):
    """Registers the app under its short label; what was begun and never finished is forgotten."""

    name = "hub.compat"
    label = "compat"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        for name in ("BegunPush", "SampleBatch"):
            register_chore(Pruning(self.get_model(name), KEPT))
