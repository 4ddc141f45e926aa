"""Teams: making them, their members, invitations."""

from __future__ import annotations

from collections.abc import Iterator

from envhub.client.connection import Connection
from envhub.client.pages import iterate
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
from envhub.protocol.base import Page


class Teams:
    """Calls under /teams."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def list(self) -> Iterator[TeamView]:
        """The caller's teams, newest first; all of them for an administrator."""
        return iterate(self._hub, "/teams", Page[TeamView])

    def create(self, request: TeamRequest) -> TeamView:
        """Make a team; the caller is its owner."""
        return self._hub.post("/teams", request, TeamView)

    def get(self, team: str) -> TeamView:
        """One team."""
        return self._hub.get(f"/teams/{team}", TeamView)

    def rename(self, team: str, display_name: str) -> TeamView:
        """Change what pages call it."""
        return self._hub.patch(f"/teams/{team}", TeamChange(display_name=display_name), TeamView)

    def delete(self, team: str) -> None:
        """Delete a team that owns nothing."""
        self._hub.delete(f"/teams/{team}")

    def members(self, team: str) -> Iterator[MemberView]:
        """Who acts for it."""
        return iterate(self._hub, f"/teams/{team}/members", Page[MemberView])

    def add(self, team: str, user: str, role: TeamRole = TeamRole.MEMBER) -> MemberView:
        """Make a user a member."""
        return self._hub.post(f"/teams/{team}/members", MemberRequest(user=user, role=role), MemberView)

    def set_role(self, team: str, user: str, role: TeamRole) -> MemberView:
        """Give a member another role."""
        return self._hub.patch(f"/teams/{team}/members/{user}", MemberChange(role=role), MemberView)

    def remove(self, team: str, user: str) -> None:
        """End a membership; one's own: leave."""
        self._hub.delete(f"/teams/{team}/members/{user}")

    def invitations(self, team: str) -> Iterator[TeamInvitationView]:
        """Links that wait."""
        return iterate(self._hub, f"/teams/{team}/invitations", Page[TeamInvitationView])

    def invite(self, team: str, request: TeamInvitationRequest) -> TeamInvitationCreated:
        """Make a link, which is only in this answer; with an address the hub also sends it."""
        return self._hub.post(f"/teams/{team}/invitations", request, TeamInvitationCreated)

    def send_again(self, team: str, invitation_id: str) -> TeamInvitationCreated:
        """Send one by mail again, as a new link; the former one ends."""
        return self._hub.post(f"/teams/{team}/invitations/{invitation_id}/send", None, TeamInvitationCreated)

    def revoke(self, team: str, invitation_id: str) -> None:
        """End a link that waits."""
        self._hub.delete(f"/teams/{team}/invitations/{invitation_id}")

    def join(self, secret: str) -> Joined:
        """Accept an invitation by the last part of its link."""
        return self._hub.post("/join", TeamJoinRequest(secret=secret), Joined)
