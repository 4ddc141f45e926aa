"""App configuration."""

from importlib import import_module

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class AccountsConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.accounts"
    label = "accounts"

    def ready(self) -> None:
        """Every way to sign in is noted: all end in Django's own signal."""
        user_logged_in.connect(import_module("hub.accounts.services.sessions").note_sign_in)
