"""Scopes, for edges above the apps (apps themselves import hub.accounts.permissions: hub.api lies above them)."""

from hub.accounts.permissions import check_read, require_scope, scopes_of

__all__ = ["check_read", "require_scope", "scopes_of"]
