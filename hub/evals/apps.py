"""App configuration."""

from importlib import import_module

from django.apps import AppConfig

from hub.accounts.holdings import register_holding
from hub.accounts.named import register_ids
from hub.runs.chores import register_chore
from hub.runs.endings import register_listener


class EvalsConfig(AppConfig):
    """Registers the app with its kind of run, its sweeper chore, its listener for ended runs, and owners' holdings."""

    name = "hub.evals"
    label = "evals"

    def ready(self) -> None:
        """Register everything once all apps' models are loaded."""
        import_module("hub.evals.run_kind")
        rows = self.get_model("Evaluation")._default_manager
        register_holding("evaluations", lambda owner: rows.filter(owner=owner), "/evaluations")
        register_ids(import_module("hub.evals.named").named_evaluations)
        register_chore(import_module("hub.evals.standings.cards").refresh_cards)
        register_listener(import_module("hub.evals.services.watching").tell_of_run)
