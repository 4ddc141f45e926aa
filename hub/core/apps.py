"""App configuration."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.core"
    label = "core"
