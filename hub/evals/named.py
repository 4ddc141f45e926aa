"""Names and addresses of evaluations, for texts that have their ids."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.urls import reverse

from hub.accounts.models import User
from hub.accounts.named import Named
from hub.evals.queries import visible_evaluations


def named_evaluations(user: User, ids: Collection[UUID]) -> dict[UUID, Named]:
    """Return those that the user may see."""
    rows = visible_evaluations(user).filter(pk__in=ids).order_by()
    found = rows.values_list("pk", "model_name", "environment__owner__slug", "environment__name")
    return {
        pk: Named(f"{model} on {owner}/{name}", reverse("evaluation", args=[pk])) for pk, model, owner, name in found
    }
