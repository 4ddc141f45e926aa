"""App configuration: registers the serve kind of run."""

from importlib import import_module

from django.apps import AppConfig

from hub.secrets.encrypted_fields import register_encrypted_field


class InferenceConfig(AppConfig):
    """Registers the app under its short label, and its kind of run."""

    name = "hub.inference"
    label = "inference"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        register_encrypted_field(self.get_model("Deployment"), "encrypted_secret")
        import_module("hub.inference.run_kind")
        import_module("hub.inference.freshness").watch()
