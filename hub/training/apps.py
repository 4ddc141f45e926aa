"""App configuration: registers the run kind `train`, the source of replays, and the field that key rotation updates."""

from importlib import import_module

from django.apps import AppConfig

from hub.accounts.holdings import register_holding
from hub.accounts.named import register_ids
from hub.secrets.encrypted_fields import register_encrypted_field


class TrainingAppConfig(AppConfig):
    """Registers the app under its short label."""

    name = "hub.training"
    label = "training"

    def ready(self) -> None:
        """Register everything once all apps' models are loaded."""
        register_encrypted_field(self.get_model("TrainingRun"), "encrypted_env")
        import_module("hub.training.run_kind")
        import_module("hub.training.replays")
        rows = self.get_model("TrainingRun")._default_manager
        register_holding("training runs", lambda owner: rows.filter(owner=owner), "/training")
        register_ids(import_module("hub.training.named").named_training)
