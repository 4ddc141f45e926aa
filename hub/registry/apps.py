"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.accounts.holdings import register_holding
from hub.accounts.named import register_names


class RegistryConfig(AppConfig):
    """Registers the app under its short label, with its run kind and what counts as an owner's holdings."""

    name = "hub.registry"
    label = "registry"

    def ready(self) -> None:
        """Import the run kind by name, because it imports models."""
        import_module("hub.registry.build_runs")
        rows = self.get_model("Environment")._default_manager
        register_holding("environments", lambda owner: rows.filter(owner=owner), "/environments")
        named = import_module("hub.registry.named")
        register_names(named.WORDS, named.environment_addresses)
