"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.runs.chores import register_chore


class RunsConfig(AppConfig):
    """Registers the app under its short label, and its chore of the sweeper."""

    name = "hub.runs"
    label = "runs"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        register_chore(import_module("hub.runs.services").withdraw_orphans)
