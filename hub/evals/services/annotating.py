"""Labels and notes on rollouts, and saved views. Members of the evaluation's or training run's owner write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.db import IntegrityError, transaction
from django.utils import timezone
from envhub.protocol.evals.annotations import ANY_LABEL, LABEL_PATTERN

from hub.accounts.models import Role, User
from hub.accounts.queries import has_role, require_role
from hub.core.errors import Conflict, Invalid, NotAllowed
from hub.evals.annotation_targets import AnnotationTarget, Place
from hub.evals.annotations import MOST_LABELS, MOST_NOTES, MOST_ON_ROLLOUT, MOST_VIEWS, labels_in, notes_of, saved_views
from hub.evals.models import Note, SavedRolloutView
from hub.notices.services import tell_of_note


def add_label(*, user: User, of: AnnotationTarget, place: Place, name: str) -> None:
    """Put a label on a rollout; idempotent. Raises NotAllowed, Invalid (its name), Conflict (too many)."""
    require_role(user, of.owner, Role.MEMBER)
    if not re.fullmatch(LABEL_PATTERN, name) or name == ANY_LABEL:
        raise Invalid(
            f"{name[:40]!r} is not a valid label",
            hint=f"use up to 32 lower-case letters, digits and inner dashes, as in `reward-hack`; not `{ANY_LABEL}`",
            fields={"label": name[:100]},
        )
    with transaction.atomic():
        of.lock()
        rows = labels_in(of)
        here = rows.filter(rollout=place.row)
        if here.filter(name=name).exists():
            return
        if here.count() >= MOST_ON_ROLLOUT:
            raise Conflict(
                f"the rollout already has {MOST_ON_ROLLOUT} labels", code="too_many_labels", hint="remove one first"
            )
        if rows.count() >= MOST_LABELS:
            raise Conflict(
                f"the {of.kind.noun} already has {MOST_LABELS} labels",
                code="too_many_labels",
                hint="remove some of them first",
            )
        of.kind.labels.objects.create(**of.own, rollout=place.row, owner=of.owner, name=name, created_by=user)


def remove_label(*, user: User, of: AnnotationTarget, place: Place, name: str) -> None:
    """Take a label off a rollout; a no-op if it is not there. Raises NotAllowed."""
    require_role(user, of.owner, Role.MEMBER)
    labels_in(of).filter(rollout=place.row, name=name).delete()


def add_note(*, user: User, of: AnnotationTarget, place: Place, text: str) -> Note:
    """Add a note to a rollout, and notify who started the whole and who wrote earlier ones.

    Raises NotAllowed, Conflict (too many).
    """
    require_role(user, of.owner, Role.MEMBER)
    with transaction.atomic():
        of.lock()
        earlier = notes_of(place.row, of.kind)
        if earlier.count() >= MOST_NOTES:
            raise Conflict(
                f"the rollout already has {MOST_NOTES} notes",
                code="too_many_notes",
                hint="delete some of your notes first",
            )
        tell_of_note(
            author=user,
            others=[of.starter, *User.objects.filter(pk__in=earlier.order_by().values("created_by"))],
            owner=of.owner,
            about=f"{place.title} of {of.title}",
            text=text,
            url=f"{place.address}#said",
        )
        made: Note = of.kind.notes.objects.create(**of.own, rollout=place.row, text=text, created_by=user)
        return made


def edit_note(*, user: User, of: AnnotationTarget, note: Note, text: str) -> Note:
    """Edit the user's own note; administrators may edit any. Raises NotAllowed."""
    require_role(user, of.owner, Role.MEMBER)
    if note.created_by_id != user.pk and not user.is_administrator:
        raise NotAllowed("only the author of a note may change it", hint="add a note of your own")
    note.text, note.edited_at = text, timezone.now()
    note.save(update_fields=["text", "edited_at"])
    return note


def delete_note(*, user: User, of: AnnotationTarget, note: Note) -> None:
    """Delete a note: the user's own or, for maintainers of the owner, anybody's. Raises NotAllowed."""
    require_role(user, of.owner, Role.MEMBER)
    if note.created_by_id != user.pk and not has_role(user, of.owner, Role.MAINTAINER):
        raise NotAllowed(
            "only the author of a note, or a maintainer of its owner, may delete it",
            hint=f"ask a maintainer of {of.owner.slug}",
        )
    note.delete()


def save_view(*, user: User, of: AnnotationTarget, name: str, query: Mapping[str, object]) -> SavedRolloutView:
    """Save a filter, which the caller has checked, under a name.

    Raises NotAllowed, Conflict (the name is taken, or too many).
    """
    require_role(user, of.owner, Role.MEMBER)
    if saved_views(of).count() >= MOST_VIEWS:
        raise Conflict(f"there are already {MOST_VIEWS} saved views", code="too_many_views", hint="delete one first")
    texts = {field: str(value) for field, value in query.items()}
    try:
        with transaction.atomic():
            return of.kind.views._default_manager.create(
                **of.kind.shares_views(of.whole), name=name, query=texts, created_by=user
            )
    except IntegrityError as error:
        raise Conflict(
            f"a view named {name!r} already exists", code="view_exists", hint="choose another name"
        ) from error


def delete_view(*, user: User, view: SavedRolloutView) -> None:
    """Delete a saved view: the user's own or, for maintainers of the owner, anybody's. Raises NotAllowed."""
    require_role(user, view.owner, Role.MEMBER)
    if view.created_by_id != user.pk and not has_role(user, view.owner, Role.MAINTAINER):
        raise NotAllowed(
            "only the person who saved a view, or a maintainer of its owner, may delete it",
            hint=f"ask a maintainer of {view.owner.slug}",
        )
    view.delete()
