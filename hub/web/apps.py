"""App configuration."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.web"
    label = "web"
