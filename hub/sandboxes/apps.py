"""App configuration: registers the sandbox kind of run."""

from importlib import import_module

from django.apps import AppConfig
from envhub.protocol.sandboxes.sandboxes import SandboxState

from hub.accounts.holdings import register_holding
from hub.secrets.encrypted_fields import register_encrypted_field


class SandboxesConfig(AppConfig):
    """Registers the app under its short label, and its kind of run."""

    name = "hub.sandboxes"
    label = "sandboxes"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        for field in ("encrypted_secret", "encrypted_env"):
            register_encrypted_field(self.get_model("Sandbox"), field)
        import_module("hub.sandboxes.run_kind")
        rows = self.get_model("Sandbox")._default_manager.exclude(
            state__in=[state for state in SandboxState if state.is_final]
        )
        register_holding("sandboxes", lambda owner: rows.filter(owner=owner), "/sandboxes")
