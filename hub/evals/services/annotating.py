"""Labels and notes on rollouts, and filters kept by name: members of the evaluation's owner write them."""

from __future__ import annotations

import re

from django.db import IntegrityError, transaction
from django.utils import timezone
from envhub.protocol.annotations import ANY_LABEL, LABEL_PATTERN

from hub.accounts.models import Role, User
from hub.accounts.queries import has_role, require_role
from hub.core.errors import Conflict, Invalid, NotAllowed
from hub.evals.annotations import MOST_LABELS, MOST_NOTES, MOST_ON_ROLLOUT, MOST_VIEWS, saved_views
from hub.evals.models import Evaluation, RolloutIndex, RolloutLabel, RolloutNote, SavedView
from hub.evals.rollout_filter import RolloutFilter
from hub.evals.services.lifecycle import locked
from hub.notices.services import tell_of_note


def add_label(*, user: User, evaluation: Evaluation, rollout: RolloutIndex, name: str) -> None:
    """Put a label on a rollout; twice is once. Raises NotAllowed, Invalid (its name), Conflict (too many)."""
    require_role(user, evaluation.owner, Role.MEMBER)
    if not re.fullmatch(LABEL_PATTERN, name) or name == ANY_LABEL:
        raise Invalid(
            f"{name[:40]!r} is no label",
            hint=f"use up to 32 lower-case letters, digits and inner dashes, as in `reward-hack`; not `{ANY_LABEL}`",
            fields={"label": name[:100]},
        )
    with transaction.atomic():
        locked(evaluation)
        rows = RolloutLabel.objects.filter(evaluation=evaluation)
        here = rows.filter(rollout=rollout)
        if here.filter(name=name).exists():
            return
        if here.count() >= MOST_ON_ROLLOUT:
            raise Conflict(f"the rollout has {MOST_ON_ROLLOUT} labels", code="too_many_labels", hint="remove one first")
        if rows.count() >= MOST_LABELS:
            raise Conflict(
                f"the evaluation has {MOST_LABELS} labels", code="too_many_labels", hint="remove some of them first"
            )
        RolloutLabel.objects.create(
            evaluation=evaluation, rollout=rollout, owner=evaluation.owner, name=name, created_by=user
        )


def remove_label(*, user: User, evaluation: Evaluation, rollout: RolloutIndex, name: str) -> None:
    """Take a label off; one that is not there is none. Raises NotAllowed."""
    require_role(user, evaluation.owner, Role.MEMBER)
    RolloutLabel.objects.filter(rollout=rollout, name=name).delete()


def add_note(*, user: User, evaluation: Evaluation, rollout: RolloutIndex, text: str) -> RolloutNote:
    """Add to the thread of a rollout, and tell who started the evaluation. Raises NotAllowed, Conflict (too many)."""
    require_role(user, evaluation.owner, Role.MEMBER)
    with transaction.atomic():
        locked(evaluation)
        if RolloutNote.objects.filter(rollout=rollout).count() >= MOST_NOTES:
            raise Conflict(f"the rollout has {MOST_NOTES} notes", code="too_many_notes", hint="delete some of yours")
        tell_of_note(
            author=user,
            starter=evaluation.created_by,
            about=f"rollout {rollout} of {evaluation.environment.owner.slug}/{evaluation.environment.name}",
            text=text,
            url=f"/evaluations/{evaluation.pk}/rollouts/{rollout.example}/{rollout.rollout}#said",
        )
        return RolloutNote.objects.create(evaluation=evaluation, rollout=rollout, text=text, created_by=user)


def edit_note(*, user: User, note: RolloutNote, text: str) -> RolloutNote:
    """Change one's own note. Raises NotAllowed."""
    require_role(user, note.evaluation.owner, Role.MEMBER)
    if note.created_by_id != user.pk and not user.is_administrator:
        raise NotAllowed("only its author may change a note", hint="answer with a note of your own")
    note.text, note.edited_at = text, timezone.now()
    note.save(update_fields=["text", "edited_at"])
    return note


def delete_note(*, user: User, note: RolloutNote) -> None:
    """Delete one's own note; an admin of the owner, anybody's. Raises NotAllowed."""
    owner = note.evaluation.owner
    require_role(user, owner, Role.MEMBER)
    if note.created_by_id != user.pk and not has_role(user, owner, Role.ADMIN):
        raise NotAllowed("only its author may delete a note", hint=f"or an admin of {owner.slug}")
    note.delete()


def save_view(*, user: User, evaluation: Evaluation, name: str, wanted: RolloutFilter) -> SavedView:
    """Keep a filter under a name, for all evaluations that this owner has of this environment.

    Raises NotAllowed, Invalid (the filter), Conflict (the name is taken, or too many).
    """
    require_role(user, evaluation.owner, Role.MEMBER)
    wanted.check()
    if saved_views(evaluation).count() >= MOST_VIEWS:
        raise Conflict(f"there are {MOST_VIEWS} saved views", code="too_many_views", hint="delete one first")
    try:
        with transaction.atomic():
            return SavedView.objects.create(
                owner=evaluation.owner,
                environment=evaluation.environment,
                name=name,
                query={field: str(value) for field, value in wanted.given().items()},
                created_by=user,
            )
    except IntegrityError as error:
        raise Conflict(f"there is a view {name!r}", code="view_exists", hint="choose another name") from error


def delete_view(*, user: User, view: SavedView) -> None:
    """Forget one's own view; an admin of the owner, anybody's. Raises NotAllowed."""
    require_role(user, view.owner, Role.MEMBER)
    if view.created_by_id != user.pk and not has_role(user, view.owner, Role.ADMIN):
        raise NotAllowed("only who saved a view may delete it", hint=f"or an admin of {view.owner.slug}")
    view.delete()
