"""Room for large bodies: the files of a form, the archives of a client. A body is written to disk before any view knows
who sends it, so that only what was shown to somebody signed in gives more room than other requests have: it signs the
address to send to.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode

from django.core import signing

_SALT = "hub.storage.form_room"
_FIELD = "room"
LASTS_S = 24 * 3600


def with_room(path: str, size: int) -> str:
    """The address of a form, or of an upload, that may send `size` bytes to `path` within a day."""
    return f"{path}?{urlencode({_FIELD: signing.dumps([path, size], salt=_SALT)})}"


def given_room(path: str, query: str) -> int:
    """How many bytes the address gives room for; 0 when it is signed by nobody, or was too long ago."""
    given = parse_qs(query).get(_FIELD, [""])[0]
    if not given:
        return 0
    try:
        signed_path, size = signing.loads(given, salt=_SALT, max_age=LASTS_S)
    except (signing.BadSignature, ValueError, TypeError):
        return 0
    return int(size) if signed_path == path else 0
