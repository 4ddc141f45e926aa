"""App configuration."""

from importlib import import_module

from django.apps import AppConfig


class EvalsConfig(AppConfig):
    """Registers the app under its short label, and its kind of run."""

    name = "hub.evals"
    label = "evals"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        import_module("hub.evals.run_kind")
