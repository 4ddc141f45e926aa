"""`hub team ...`: teams, their members, and for whom this command line acts."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.configuration import save_owner
from envhub.cli.terminal.ids import id_of
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.errors import UsageError
from envhub.protocol.accounts.teams import TeamInvitationCreated, TeamInvitationRequest, TeamRequest, TeamRole

_INVITING = (TeamRole.OWNER, TeamRole.MAINTAINER)
_ROLES = f"<{'|'.join(TeamRole)}>"
Team = Annotated[str, typer.Argument(help="The team's name.")]
User = Annotated[str, typer.Argument(help="The user's name.")]
Role = Annotated[TeamRole, typer.Option(metavar=_ROLES, help="What they may do.")]


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Used in addresses: lower-case letters, digits, inner dashes.")],
    title: Annotated[str, typer.Option(help="Title shown on pages.")] = "",
    json: JsonFlag = False,
) -> None:
    """Create a team that you own."""
    session = current(ctx)
    made = session.hub.teams.create(TeamRequest(name=name, display_name=title))
    session.show(made, lambda: session.out.print(f"made {made.name}; next: `hub team invite {made.name}`"))


def list_teams(ctx: typer.Context, json: JsonFlag = False) -> None:
    """List your teams."""
    session = current(ctx)
    found = list(session.hub.teams.list())
    rows = [(team.name, team.display_name, team.role, team.members, team.created_at) for team in found]
    columns = ("team", "title", "your role", "members", "since")
    session.show(found, lambda: session.table(columns, rows, "no teams", Fit(drop=("since", "title"))))


def show(ctx: typer.Context, team: Team, json: JsonFlag = False) -> None:
    """Show a team with its members. Its owners and maintainers also see pending invitations."""
    session = current(ctx)
    view, members = session.hub.teams.get(team), list(session.hub.teams.members(team))
    waiting = list(session.hub.teams.invitations(team)) if view.role in _INVITING else []

    def human() -> None:
        session.fields({"team": view.name, "title": view.display_name, "your role": view.role})
        session.table(("member", "role"), [(one.user, one.role) for one in members])
        if waiting:
            rows = [(one.id, one.mail or "(a link)", one.role, one.created_by, one.expires_at) for one in waiting]
            session.table(("invitation", "for", "role", "by", "works until"), rows, fit=Fit(drop=("by",)))

    session.show({"team": view, "members": members, "invitations": waiting}, human)


def rename(
    ctx: typer.Context,
    team: Team,
    title: Annotated[str, typer.Argument(help="Title shown on pages; '' for its name.")],
    json: JsonFlag = False,
) -> None:
    """Change the title of a team; its name does not change."""
    session = current(ctx)
    view = session.hub.teams.rename(team, title)
    session.show(view, lambda: session.out.print(f"{view.name}: {view.display_name or view.name}", markup=False))


def invite(
    ctx: typer.Context,
    team: Team,
    role: Role = TeamRole.MEMBER,
    mail: Annotated[str, typer.Option(metavar="<address>", help="Mail the link to this address.")] = "",
    days: Annotated[int, typer.Option(min=1, max=30, help="How long the link works.")] = 7,
    json: JsonFlag = False,
) -> None:
    """Invite one person by mail, or by a link to pass on, which is shown only once."""
    session = current(ctx)
    made = session.hub.teams.invite(team, TeamInvitationRequest(role=role, mail=mail, valid_days=days))
    _show_invitation(session, made)


def _show_invitation(session: Session, made: TeamInvitationCreated) -> None:
    if made.invitation.mail and not made.is_sent:
        session.note("note: the hub's mail server did not take the mail; pass on the link yourself")
    said = f"sent to {made.invitation.mail}" if made.is_sent else made.url
    session.show(made, lambda: session.out.print(said, markup=False, soft_wrap=True))


def send(
    ctx: typer.Context,
    team: Team,
    invitation_id: Annotated[str, typer.Argument(help="Its id.", callback=id_of("an invitation", "hub team show"))],
    json: JsonFlag = False,
) -> None:
    """Send an invitation by mail again with a new link; the old link stops working."""
    session = current(ctx)
    _show_invitation(session, session.hub.teams.send_again(team, invitation_id))


def revoke(
    ctx: typer.Context,
    team: Team,
    invitation_id: Annotated[str, typer.Argument(help="Its id.", callback=id_of("an invitation", "hub team show"))],
    json: JsonFlag = False,
) -> None:
    """Revoke an invitation that nobody has accepted."""
    session = current(ctx)
    session.hub.teams.revoke(team, invitation_id)
    session.show({"revoked": invitation_id}, lambda: session.out.print("revoked"))


def join(
    ctx: typer.Context,
    link: Annotated[str, typer.Argument(help="The link that somebody of the team gave you.")],
    json: JsonFlag = False,
) -> None:
    """Accept an invitation."""
    session = current(ctx)
    joined = session.hub.teams.join(link.rstrip("/").rpartition("/")[2])
    session.show(joined, lambda: session.out.print(f"you are in {joined.team} now, with the role {joined.role}"))


def add(ctx: typer.Context, team: Team, user: User, role: Role = TeamRole.MEMBER, json: JsonFlag = False) -> None:
    """Add a user of this hub."""
    session = current(ctx)
    member = session.hub.teams.add(team, user, role)
    session.show(member, lambda: session.out.print(f"{member.user} has the role {member.role} in {team} now"))


def set_role(
    ctx: typer.Context,
    team: Team,
    user: User,
    role: Annotated[TeamRole, typer.Argument(metavar=_ROLES, help="Their new role.")],
    json: JsonFlag = False,
) -> None:
    """Give a member another role."""
    session = current(ctx)
    member = session.hub.teams.set_role(team, user, role)
    session.show(member, lambda: session.out.print(f"{member.user} has the role {member.role} in {team} now"))


def remove(ctx: typer.Context, team: Team, user: User, json: JsonFlag = False) -> None:
    """Remove a member. Runs that they have started for the team continue."""
    session = current(ctx)
    session.hub.teams.remove(team, user)
    session.show({"removed": user}, lambda: session.out.print(f"{user} is no member of {team} any more"))


def leave(ctx: typer.Context, team: Team, json: JsonFlag = False) -> None:
    """Leave a team."""
    session = current(ctx)
    session.hub.teams.remove(team, session.me)
    session.show({"left": team}, lambda: session.out.print(f"you have left {team}"))


def delete(ctx: typer.Context, team: Team, yes: Yes = False, json: JsonFlag = False) -> None:
    """Delete a team that owns nothing."""
    session = current(ctx)
    ask_to_delete(session, f"team {team}", yes=yes)
    session.hub.teams.delete(team)
    session.show({"deleted": team}, lambda: session.out.print(f"deleted {team}"))


def use(
    ctx: typer.Context,
    owner: Annotated[str | None, typer.Argument(help="Your team (default: act for yourself).")] = None,
    json: JsonFlag = False,
) -> None:
    """Act for a team from now on: it becomes the default owner of commands and names."""
    session = current(ctx)
    me = session.hub.accounts.me()
    if owner is not None and owner not in me.owners:
        raise UsageError(f"you cannot act for {owner}", hint=f"Your owners: {', '.join(me.owners)}.")
    chosen = None if owner in (None, me.user) else owner
    save_owner(session.config_file, session.configuration.url, chosen)
    if session.environ.get("HUB_OWNER"):
        session.note("note: HUB_OWNER is set and wins over this")
    session.show({"acts_for": chosen or me.user}, lambda: session.out.print(f"acting for {chosen or me.user}"))
