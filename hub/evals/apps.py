"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.accounts.holdings import register_holding
from hub.runs.chores import register_chore


class EvalsConfig(AppConfig):
    """Registers the app under its short label, its kind of run and its chore of the sweeper."""

    name = "hub.evals"
    label = "evals"

    def ready(self) -> None:
        """Called once every app's models are loaded."""
        import_module("hub.evals.run_kind")
        rows = self.get_model("Evaluation")._default_manager
        register_holding("evaluations", lambda owner: rows.filter(owner=owner), "/evaluations")
        register_chore(import_module("hub.evals.cards").refresh_cards)
