"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.runs.chores import register_chore


class AuditConfig(AppConfig):
    """Registers the app under its short label, and its chore of the sweeper."""

    name = "hub.audit"
    label = "audit"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        register_chore(import_module("hub.audit.services").Pruning())
