"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.core.pruning import Pruning
from hub.runs.chores import register_chore
from hub.runs.endings import register_listener


class NoticesConfig(AppConfig):
    """Registers the app under its short label; it listens to the ends of runs, and mails from the sweeper."""

    name = "hub.notices"
    label = "notices"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        services = import_module("hub.notices.services")
        register_listener(services.tell_of_run)
        register_chore(import_module("hub.notices.mailing").Mailer())
        register_chore(Pruning(self.get_model("Notice"), services.KEPT))
