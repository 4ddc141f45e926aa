"""App configuration."""

from datetime import timedelta

from django.apps import AppConfig
from django.conf import settings

from hub.core.pruning import Pruning
from hub.runs.chores import register_chore


class LinksConfig(AppConfig):
    """Registers the app under its short label; links that are long over are forgotten."""

    name = "hub.links"
    label = "links"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        kept = timedelta(days=settings.HUB.share_link_days + 90)  # from when it was made
        register_chore(Pruning(self.get_model("ShareLink"), kept))
