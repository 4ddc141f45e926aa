"""App configuration."""

from django.apps import AppConfig


class StorageConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.storage"
    label = "storage"
