"""Writes of the accounts app: users, teams, tokens, device logins, login links, sessions, rate limits."""

from hub.accounts.services.devices import decide_device, exchange_device_code, start_device_login
from hub.accounts.services.invitations import accept_invitation, invite_user
from hub.accounts.services.limits import forget_old_counts, limit_login, limit_rate
from hub.accounts.services.links import create_login_link, find_linked, first_login_link, use_link
from hub.accounts.services.quotas import set_quota
from hub.accounts.services.sessions import end_other_sessions, forget_old_sessions, keep_session
from hub.accounts.services.team_invitations import invite_to_team, join_team, revoke_invitation, send_invitation
from hub.accounts.services.teams import (
    add_member,
    change_role,
    create_team,
    delete_team,
    remove_member,
    rename_team,
)
from hub.accounts.services.tokens import create_token, note_token_use, revoke_token
from hub.accounts.services.users import (
    create_user,
    disable_user,
    enable_user,
    ensure_user,
    register_user,
    set_password,
    system_owner,
)

__all__ = [
    "accept_invitation",
    "add_member",
    "change_role",
    "create_login_link",
    "create_team",
    "create_token",
    "create_user",
    "decide_device",
    "delete_team",
    "disable_user",
    "enable_user",
    "end_other_sessions",
    "ensure_user",
    "exchange_device_code",
    "find_linked",
    "first_login_link",
    "forget_old_counts",
    "forget_old_sessions",
    "invite_to_team",
    "invite_user",
    "join_team",
    "keep_session",
    "limit_login",
    "limit_rate",
    "note_token_use",
    "register_user",
    "remove_member",
    "rename_team",
    "revoke_invitation",
    "revoke_token",
    "send_invitation",
    "set_password",
    "set_quota",
    "start_device_login",
    "system_owner",
    "use_link",
]
