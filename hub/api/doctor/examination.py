"""The order of the examination: what needs the database comes only when it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django.conf import settings
from django.utils import timezone

from hub.api.doctor.backups import look_at_backups
from hub.api.doctor.certificate import look_at_certificate
from hub.api.doctor.database import look_at_database
from hub.api.doctor.findings import Finding, Level, failure
from hub.api.doctor.fleet import look_at_fleet
from hub.api.doctor.host import look_at_host, look_at_sandbox
from hub.api.doctor.mail import look_at_mail
from hub.api.doctor.outside import look_at_proxy
from hub.api.doctor.parts import look_at_broker, look_at_storage
from hub.api.doctor.setup import look_at_settings


def examine() -> Iterator[Finding]:
    """Everything, as it is found. Raises nothing: a look that fails is a finding, too."""
    hub = settings.HUB
    database = list(_safely("database", look_at_database))
    yield from database
    yield from _safely("broker", look_at_broker)
    yield from _safely("storage", look_at_storage)
    if all(finding.level is not Level.FAILURE for finding in database):
        yield from _safely("workers", lambda: look_at_fleet(timezone.now()))
        yield from _safely("backup", lambda: look_at_backups(hub.backup_destination, timezone.now()))
    yield from _safely("sandbox", lambda: look_at_sandbox(hub.data))
    yield from _safely("host", lambda: look_at_host(hub.data))
    yield from _safely("proxy", look_at_proxy)
    yield from _safely("mail", lambda: look_at_mail(hub.mail_url))
    yield from _safely("certificate", lambda: look_at_certificate(hub.base_url, timezone.now()))
    yield from look_at_settings(hub)


def _safely(subject: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except Exception as error:  # noqa: BLE001  the boundary: the other looks are still worth it
        yield failure(
            subject, f"cannot be looked at: {type(error).__name__}: {error}", "mend what it names, and look again"
        )
