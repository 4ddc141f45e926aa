"""Errors of the accounts app that are not the hub's ErrorBody: OAuth's own shape, `{"error", "error_description"}`."""

from __future__ import annotations

from hub.core.errors import HubError


class DeviceError(HubError):
    """RFC 6749 section 5.2 and RFC 8628 section 3.5: always 400, `code` is OAuth's."""

    status = 400

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, code=code)
