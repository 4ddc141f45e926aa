"""The owner that a person has chosen in the header: the default of forms and of lists that show one owner.

It is kept in the session and only fills in what nobody named. Rights are those of the membership, as everywhere.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from hub.accounts.models import Membership, Owner, Role, User

KEY = "chosen_owner"


def choose_owner(request: HttpRequest, owner: Owner) -> None:
    """Remember the owner for this session; the user's own ends the choice."""
    request.session.pop(KEY, None)
    if owner.slug != request.user.get_username():
        request.session[KEY] = owner.slug


def chosen_team(request: HttpRequest, role: Role = Role.READER) -> Owner | None:
    """Return the chosen team if the user is still a member with at least `role`; None: the user acts for themselves."""
    slug = request.session.get(KEY) if hasattr(request, "session") else None
    if not slug or not isinstance(request.user, User):
        return None
    found = Membership.objects.select_related("owner").filter(user=request.user, owner__slug=slug).first()
    return found.owner if found and Role(found.role).includes(role) else None


def default_owner(request: HttpRequest, role: Role = Role.MEMBER) -> str:
    """Return the owner of a page or form that names none: the chosen team, if the user has `role` there, or the user.

    A form that is sent says itself for whom it is: what it leaves out is the user's.
    """
    team = chosen_team(request, role) if request.method in {"GET", "HEAD"} else None
    return team.slug if team else request.user.get_username()


def named_owner(request: HttpRequest, role: Role = Role.MEMBER) -> str:
    """Return the owner that the form or the address names, or `default_owner`."""
    return request.POST.get("owner") or request.GET.get("owner") or default_owner(request, role)


def acting_for(request: HttpRequest) -> dict[str, object]:
    """Template context: the name in the header, looked up only where a header is shown."""
    return {"acting_for": SimpleLazyObject(lambda: _name(request))}


def _name(request: HttpRequest) -> str:
    team = chosen_team(request)
    return team.slug if team else request.user.get_username()
