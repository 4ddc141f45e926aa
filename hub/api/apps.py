"""App configuration."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.api"
    label = "api"
