"""Reads of the catalog: who sees a model may call it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet
from envhub.protocol.packages import Visibility

from hub.accounts.models import User
from hub.accounts.queries import Caller, visible_owner_ids
from hub.catalog.models import Model
from hub.core.errors import NotFound


def visible_models(user: User | AnonymousUser) -> QuerySet[Model]:
    """What the user may see and call: public ones, and the private ones of the owners that the user is a member of."""
    rows = Model.objects.filter(Q(visibility=Visibility.PUBLIC.value) | Q(owner_id__in=visible_owner_ids(user)))
    return rows.select_related("owner", "base__owner").prefetch_related("variants").order_by("-pk")


def seen_from_inside(user: Caller, models: Iterable[Model]) -> set[UUID]:
    """Of the models' owners, those that the user is a member of (an administrator: all), by id."""
    owners = {model.owner_id for model in models}
    return set(visible_owner_ids(user).filter(pk__in=owners))


def get_model(user: User | AnonymousUser, reference: str) -> Model:
    """The model that "owner/name" names. Raises NotFound when absent or not visible."""
    owner, _, name = reference.partition("/")
    found = visible_models(user).filter(owner__slug=owner, name=name).first()
    if found is None:
        raise NotFound(f"no model {reference}", code="model_not_found", hint="`hub model list` shows what you may call")
    return found
