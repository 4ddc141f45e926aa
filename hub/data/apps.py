"""App configuration."""

from django.apps import AppConfig


class DataConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.data"
    label = "data"
