"""Models that a sandbox may call: its worker asks this hub's gateway for it, with a token made for the sandbox alone.

The token may call models, lives as long as the sandbox may, and is gone with it. It stays with the worker, who passes
on only calls of the sandbox's own models.
"""

from __future__ import annotations

from collections.abc import Iterable

from envhub.protocol.accounts.users import Scope

from hub.accounts.models import User
from hub.accounts.services.tokens import create_token
from hub.catalog.queries import get_model
from hub.sandboxes.models import Sandbox

DAY_S = 86_400
BEGIN_S = 3600  # that its image may take to come, beside its own lifetime


def check_models(user: User, names: Iterable[str]) -> None:
    """Raises NotFound for one that `user` may not call."""
    for name in names:
        get_model(user, name)


def new_model_token(row: Sandbox) -> str:
    """The secret of a fresh token in the place of an earlier attempt's; "" for a sandbox without models. Raises
    NotAllowed when whoever made the sandbox is disabled."""
    end_model_token(row)
    if not row.model_names:
        return ""
    days = (row.timeout_s + BEGIN_S) / DAY_S
    name = f"sandbox {row.pk}"
    secret, token = create_token(user=row.created_by, name=name, scopes=(Scope.INFERENCE,), expires_in_days=days)
    Sandbox.objects.filter(pk=row.pk).update(model_token=token)
    return secret


def end_model_token(row: Sandbox) -> None:
    """Nobody calls a model with it any more."""
    if row.model_token is not None:
        row.model_token.delete()
        row.model_token = None
