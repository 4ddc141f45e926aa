"""The audit log on the wire."""

from __future__ import annotations

from datetime import datetime

from envhub.protocol.base import Response


class AuditEntryView(Response):
    """One successful write of a person."""

    id: str
    at: datetime
    actor: str  # user name
    action: str  # in words
    subject: str  # `owner/name@version`, a name or an id; may be empty
    owner: str  # for whom
    address: str
    token_prefix: str  # of the API token; empty: in a browser
    request_id: str  # as in the hub's log
