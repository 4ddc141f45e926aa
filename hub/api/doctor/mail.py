"""Does the mail server of HUB_MAIL_URL take the hub's name and password. Nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from smtplib import SMTPException

from django.core.mail import get_connection

from hub.api.doctor.findings import Finding, failure, ok


def look_at_mail(url: str) -> Iterator[Finding]:
    """Nothing is said of a hub that sends no mail."""
    if not url:
        return
    try:
        connection = get_connection()
        connection.open()
        connection.close()
    except (OSError, SMTPException) as error:
        yield failure("mail", f"the server refuses: {error}", "set HUB_MAIL_URL right, and let this host reach it")
        return
    yield ok("mail", "the server takes the hub's mail")
