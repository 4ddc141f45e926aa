"""The SDK's error tree. Every error has a stable `code`, a message for the user and a `hint`; all are picklable.

EnvhubError
|-- UsageError             the command line or a configuration file is wrong
|-- PackageError           a package directory or a distribution file cannot be used
|   `-- ArchiveError       a wheel or sdist is unsafe, too large or broken
|-- ConnectionFailed       the hub (or its storage) cannot be reached
`-- ApiError               the hub answered with an error; `status` is the HTTP status
    |-- NotAuthenticated   401
    |-- NotAllowed         403
    |-- NotFound           404
    |-- Conflict           409
    |-- TooLarge           413
    |-- Invalid            422; `fields` says where
    |-- RateLimited        429
    `-- ServerError        5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EnvhubError(Exception):
    """Base of all."""

    code = "error"

    def __init__(
        self, message: str, *, code: str | None = None, hint: str = "", fields: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.hint = hint
        self.fields = dict(fields or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.__dict__))


def _rebuild(kind: type[EnvhubError], message: str, state: dict[str, Any]) -> EnvhubError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class UsageError(EnvhubError):
    """The command line or a configuration file is wrong."""

    code = "usage"


class PackageError(EnvhubError):
    """A package cannot be built or read."""

    code = "bad_package"


class ArchiveError(PackageError):
    """An archive is unsafe, too large or broken."""

    code = "bad_archive"


class ConnectionFailed(EnvhubError):
    """Nobody answered."""

    code = "connection_failed"


class ApiError(EnvhubError):
    """The hub answered with an error."""

    code = "api_error"
    status = 0


class NotAuthenticated(ApiError):
    """No or bad credentials."""

    code, status = "not_authenticated", 401


class NotAllowed(ApiError):
    """Visible, but not permitted."""

    code, status = "not_allowed", 403


class NotFound(ApiError):
    """Absent, or private to somebody else."""

    code, status = "not_found", 404


class Conflict(ApiError):
    """The current state does not permit it."""

    code, status = "conflict", 409


class TooLarge(ApiError):
    """A budget was exceeded."""

    code, status = "too_large", 413


class Invalid(ApiError):
    """The request's content is wrong."""

    code, status = "invalid", 422


class RateLimited(ApiError):
    """Too many requests."""

    code, status = "rate_limited", 429


class ServerError(ApiError):
    """The hub failed."""

    code, status = "server_error", 500


BY_STATUS: dict[int, type[ApiError]] = {
    kind.status: kind for kind in (NotAuthenticated, NotAllowed, NotFound, Conflict, TooLarge, Invalid, RateLimited)
}
