"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.accounts.holdings import register_holding


class RegistryConfig(AppConfig):
    """Registers the app under its short label, and the run kind that it brings."""

    name = "hub.registry"
    label = "registry"

    def ready(self) -> None:
        """By name, because it imports models."""
        import_module("hub.registry.build_runs")
        rows = self.get_model("Environment")._default_manager
        register_holding("environments", lambda owner: rows.filter(owner=owner), "/environments")
