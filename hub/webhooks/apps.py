"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.core.pruning import Pruning
from hub.runs.chores import register_chore
from hub.runs.endings import register_listener
from hub.secrets.encrypted_fields import register_encrypted_field


class WebhooksConfig(AppConfig):
    """Registers the app under its short label; it listens to the ends of runs, and sends from the sweeper."""

    name = "hub.webhooks"
    label = "webhooks"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        sender = import_module("hub.webhooks.sender")
        register_encrypted_field(self.get_model("Webhook"), "encrypted_secret")
        register_listener(import_module("hub.webhooks.services").tell_webhooks)
        register_chore(sender.Sender())
        register_chore(Pruning(self.get_model("Delivery"), sender.KEPT))
