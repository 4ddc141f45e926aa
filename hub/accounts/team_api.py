"""API of teams: create, show, rename and delete teams; manage their members and invitations."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts.teams import (
    Joined,
    MemberChange,
    MemberRequest,
    MemberView,
    TeamChange,
    TeamInvitationCreated,
    TeamInvitationRequest,
    TeamInvitationView,
    TeamJoinRequest,
    TeamRequest,
    TeamRole,
    TeamView,
)
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import Page
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.client_address import client_address
from hub.accounts.models import Owner, Role, User
from hub.accounts.permissions import require_account, require_scope
from hub.accounts.queries import get_team, members_of, open_invitations, require_role, visible_teams
from hub.accounts.services import (
    add_member,
    change_role,
    create_team,
    delete_team,
    invite_to_team,
    join_team,
    limit_rate,
    remove_member,
    rename_team,
    revoke_invitation,
    send_invitation,
)
from hub.accounts.services.team_invitations import TeamLink
from hub.accounts.wire import invitation_view, member_view, team_view
from hub.core.http import answer, answer_page, parse
from hub.core.ids import GivenId
from hub.core.pagination import newest_first
from hub.core.requests.parameters import PAGE, query


@extend_schema(methods=["GET"], parameters=query(*PAGE), responses=Page[TeamView])
@extend_schema(methods=["POST"], request=TeamRequest, responses={201: TeamView})
@api_view(["GET", "POST"])
def teams(request: Request) -> HttpResponse:
    """List the caller's teams, or create one. Administrators see all teams. The caller owns a new team."""
    if request.method == "GET":
        user = require_scope(request, Scope.READ)
        return answer_page(*newest_first(visible_teams(user), request), team_view)
    user = require_account(request, Scope.WRITE)
    body = parse(request, TeamRequest)
    made = create_team(user=user, slug=body.name, display_name=body.display_name)
    return answer(team_view(get_team(user, made.slug)), status=201)


@extend_schema(methods=["GET"], responses=TeamView)
@extend_schema(methods=["PATCH"], request=TeamChange, responses=TeamView)
@extend_schema(methods=["DELETE"], responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def team_detail(request: Request, team: str) -> HttpResponse:
    """Return, rename or delete a team.

    PATCH changes the display name. A team can be deleted only if it owns nothing.
    """
    user, found = _reach(request, team)
    if request.method == "DELETE":
        delete_team(user=user, team=found)
        return HttpResponse(status=204)
    if request.method == "PATCH":
        rename_team(user=user, team=found, display_name=parse(request, TeamChange).display_name)
    return answer(team_view(found))


def _reach(request: Request, team: str) -> tuple[User, Owner]:
    user = require_scope(request, Scope.READ if request.method == "GET" else Scope.WRITE)
    return user, get_team(user, team)


@extend_schema(methods=["GET"], parameters=query(*PAGE), responses=Page[MemberView])
@extend_schema(methods=["POST"], request=MemberRequest, responses={201: MemberView})
@api_view(["GET", "POST"])
def members(request: Request, team: str) -> HttpResponse:
    """List the members of a team, or add one. Owners and maintainers can add users who have an account on this hub."""
    user, found = _reach(request, team)
    if request.method == "GET":
        return answer_page(*newest_first(members_of(found), request), member_view)
    body = parse(request, MemberRequest)
    made = add_member(user=user, team=found, name=body.user, role=Role(body.role))
    return answer(MemberView(user=body.user, role=TeamRole(made.role), is_active=True), status=201)


@extend_schema(methods=["PATCH"], request=MemberChange, responses=MemberView)
@extend_schema(methods=["DELETE"], responses={204: None})
@api_view(["PATCH", "DELETE"])
def member_detail(request: Request, team: str, user: str) -> HttpResponse:
    """Change a member's role, or remove a member.

    Maintainers can remove readers and members; owners can remove anybody but the last owner. Everybody can leave.
    """
    caller, found = _reach(request, team)
    if request.method == "DELETE":
        remove_member(user=caller, team=found, name=user)
        return HttpResponse(status=204)
    changed = change_role(user=caller, team=found, name=user, role=Role(parse(request, MemberChange).role))
    view = MemberView(user=user, role=TeamRole(changed.role), is_active=changed.user.is_active)
    return answer(view)


@extend_schema(methods=["GET"], parameters=query(*PAGE), responses=Page[TeamInvitationView])
@extend_schema(methods=["POST"], request=TeamInvitationRequest, responses={201: TeamInvitationCreated})
@api_view(["GET", "POST"])
def invitations(request: Request, team: str) -> HttpResponse:
    """List open invitations, or create one.

    Requires the role owner or maintainer; maintainers can invite readers and members. Only the response to POST
    contains the link. With `mail` the hub also sends it, if it can send mail.
    """
    user, found = _reach(request, team)
    require_role(user, found, Role.MAINTAINER)
    if request.method == "GET":
        return answer_page(*newest_first(open_invitations(found), request), invitation_view)
    body = parse(request, TeamInvitationRequest)
    valid_for = timedelta(days=body.valid_days)
    made = invite_to_team(user=user, team=found, role=Role(body.role), mail=body.mail, valid_for=valid_for)
    return _told(made, status=201)


def _told(made: TeamLink, *, status: int = 200) -> HttpResponse:
    view = TeamInvitationCreated(invitation=invitation_view(made.invitation), url=made.url, is_sent=made.is_sent)
    response = answer(view, status=status)
    response["Cache-Control"] = "no-store"
    return response


@extend_schema(responses={204: None})
@api_view(["DELETE"])
def invitation_detail(request: Request, team: str, invitation_id: GivenId) -> HttpResponse:
    """Revoke an open invitation."""
    user, found = _reach(request, team)
    revoke_invitation(user=user, team=found, invitation_id=invitation_id)
    return HttpResponse(status=204)


@extend_schema(request=None, responses=TeamInvitationCreated)
@api_view(["POST"])
def invitation_send(request: Request, team: str, invitation_id: GivenId) -> HttpResponse:
    """Send an invitation by mail again.

    The mail contains a new link, valid for seven days; the previous link stops working.
    """
    user, found = _reach(request, team)
    return _told(send_invitation(user=user, team=found, invitation_id=invitation_id))


@extend_schema(request=TeamJoinRequest, responses=Joined)
@api_view(["POST"])
def join(request: Request) -> HttpResponse:
    """Accept an invitation to a team. Its link works once."""
    user = require_account(request, Scope.WRITE)
    limit_rate(key=f"join:{client_address(request._request)}", limit=30, per=timedelta(minutes=5))
    made = join_team(user=user, secret=parse(request, TeamJoinRequest).secret)
    return answer(Joined(team=made.owner.slug, role=TeamRole(made.role)))
