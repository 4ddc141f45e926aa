"""Names and addresses of training runs, for texts that have their ids."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.urls import reverse

from hub.accounts.models import User
from hub.accounts.named import Named
from hub.training.queries import visible_training


def named_training(user: User, ids: Collection[UUID]) -> dict[UUID, Named]:
    """Return those that the user may see."""
    rows = visible_training(user).filter(pk__in=ids).order_by().prefetch_related(None)
    found = rows.values_list("pk", "name", "model_name")
    return {pk: Named(name or f"training of {model}", reverse("training-run", args=[pk])) for pk, name, model in found}
