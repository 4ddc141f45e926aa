"""App configuration."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.runs"
    label = "runs"
