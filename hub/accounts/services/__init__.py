"""Writes of the accounts app: users, tokens, device logins, login links, sessions, rate limits."""

from hub.accounts.services.devices import decide_device, exchange_device_code, start_device_login
from hub.accounts.services.invitations import accept_invitation, invite_user
from hub.accounts.services.limits import forget_old_counts, limit_login, limit_rate
from hub.accounts.services.links import create_login_link, find_linked, first_login_link, use_link
from hub.accounts.services.sessions import forget_old_sessions
from hub.accounts.services.tokens import create_token, note_token_use, revoke_token
from hub.accounts.services.users import (
    create_user,
    disable_user,
    enable_user,
    ensure_user,
    set_password,
    system_owner,
)

__all__ = [
    "accept_invitation",
    "create_login_link",
    "create_token",
    "create_user",
    "decide_device",
    "disable_user",
    "enable_user",
    "ensure_user",
    "exchange_device_code",
    "find_linked",
    "first_login_link",
    "forget_old_counts",
    "forget_old_sessions",
    "invite_user",
    "limit_login",
    "limit_rate",
    "note_token_use",
    "revoke_token",
    "set_password",
    "start_device_login",
    "system_owner",
    "use_link",
]
