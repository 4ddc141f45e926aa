"""App configuration."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.accounts"
    label = "accounts"
