"""App configuration."""

from django.apps import AppConfig

from hub.secrets.encrypted_fields import register_encrypted_field


class BundlesConfig(AppConfig):
    """Registers the app under its short label, and its encrypted field for key rotation."""

    name = "hub.bundles"
    label = "bundles"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        register_encrypted_field(self.get_model("SigningKey"), "encrypted_key")
