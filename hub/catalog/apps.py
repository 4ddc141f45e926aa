"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.accounts.holdings import register_holding
from hub.accounts.named import register_names
from hub.secrets.encrypted_fields import register_encrypted_field


class CatalogConfig(AppConfig):
    """Registers the app under its short label, its encrypted fields for key rotation, and its models as judges."""

    name = "hub.catalog"
    label = "catalog"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        variant = self.get_model("Variant")
        register_encrypted_field(variant, "encrypted_key")
        register_encrypted_field(variant, "encrypted_headers")
        import_module("hub.catalog.judges")
        rows = self.get_model("Model")._default_manager
        register_holding("models", lambda owner: rows.filter(owner=owner), "/models")
        named = import_module("hub.catalog.named")
        register_names(named.WORDS, named.model_addresses)
