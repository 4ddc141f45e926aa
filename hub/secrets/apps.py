"""App configuration."""

from django.apps import AppConfig

from hub.accounts.holdings import register_holding
from hub.secrets.encrypted_fields import register_encrypted_field
from hub.secrets.keyring import keyring


class SecretsConfig(AppConfig):
    """Registers the app under its short label; a malformed key stops the process here."""

    name = "hub.secrets"
    label = "secrets"

    def ready(self) -> None:
        """Read the keys once."""
        keyring()
        register_encrypted_field(self.get_model("Secret"), "ciphertext")
        rows = self.get_model("Secret")._default_manager
        register_holding("secrets", lambda owner: rows.filter(owner=owner), "/settings/secrets", for_members=True)
