"""Reads of the catalog: who sees a model may call it."""

from __future__ import annotations

import re
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.accounts.queries import SYSTEM_OWNER, inside_owners, visible_owner_ids
from hub.catalog.making import TINY, is_being_made
from hub.catalog.models import Model
from hub.core.errors import Conflict, NotAllowed, NotFound

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")  # of what the hub makes


def visible_models(user: User | AnonymousUser, *, owner_id: UUID | None = None) -> QuerySet[Model]:
    """What the user may see and call: public ones, and the private ones of the owners that the user is a member of.

    owner_id: the owner of a run that the user has started; its models, too, since the run outlives the membership.
    """
    own = Q() if owner_id is None else Q(owner_id=owner_id)
    public = Q(visibility=Visibility.PUBLIC.value)
    rows = Model.objects.filter(public | Q(owner_id__in=visible_owner_ids(user)) | own)
    return rows.select_related("owner", "base__owner").prefetch_related("variants").order_by("-pk")


def suggested_model(user: User | AnonymousUser, *, trainable: bool = False) -> str:
    """hub/tiny where it is, else the newest visible model (that can be trained), else ""."""
    rows = visible_models(user).prefetch_related(None)
    if trainable:
        rows = rows.filter(trainable=True, base=None)
    found = rows.filter(owner__slug=SYSTEM_OWNER, name=TINY).first() or rows.order_by("-pk").first()
    return f"{found.owner.slug}/{found.name}" if found else ""


def is_tiny_being_made() -> bool:
    """Whether the hub is making hub/tiny now."""
    return is_being_made(settings.HUB.data, TINY)


def get_model(user: User | AnonymousUser, reference: str, *, owner_id: UUID | None = None) -> Model:
    """The model that "owner/name" names, of `visible_models`. Raises NotFound, Conflict while the hub makes it."""
    owner, _, name = reference.partition("/")
    found = visible_models(user, owner_id=owner_id).filter(owner__slug=owner, name=name).first()
    if found is None:
        if owner == SYSTEM_OWNER and NAME.fullmatch(name) and is_being_made(settings.HUB.data, name):
            raise Conflict(
                f"{reference} is still being made, which takes a minute or two",
                code="model_being_made",
                hint="try again then; `hub model list` shows it when it is ready",
            )
        raise NotFound(f"no model {reference}", code="model_not_found", hint="`hub model list` shows what you may call")
    return found


def get_model_of_member(user: User, reference: str) -> Model:
    """A model whose files the user may have. Raises NotFound, and NotAllowed where others may only call it."""
    found = get_model(user, reference)
    if found.owner_id not in inside_owners(user, [found]):
        raise NotAllowed(
            f"only members of {found.owner.slug} can download the files of {reference}",
            hint="you can call and evaluate it by its name; ask its owner for the files",
        )
    return found
