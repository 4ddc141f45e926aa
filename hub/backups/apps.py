"""App configuration."""

from django.apps import AppConfig


class BackupsConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.backups"
    label = "backups"
