"""/healthz: the process answers. /readyz: so does all that it depends on, reported one by one. Open to everybody."""

from __future__ import annotations

from collections.abc import Callable

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from envhub.protocol.health import Alive, Readiness

from hub.core.errors import HubError, Unavailable
from hub.core.http import answer
from hub.core.queue import check_broker
from hub.storage.queries import backend


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """For restarts: touches nothing."""
    return answer(Alive())


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """For load balancers: 503 while a part is down."""
    checks = {"database": check_database, "storage": lambda: backend().check(), "broker": check_broker}
    parts = {name: _result(check) for name, check in checks.items()}
    ready = all(result == "ok" for result in parts.values())
    return answer(Readiness(ready=ready, parts=parts), status=200 if ready else 503)


def check_database() -> None:
    """Raises Unavailable when the database does not answer a query, or lacks the hub's tables."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM accounts_owner WHERE slug = ''")
    except DatabaseError as error:
        raise Unavailable("the database does not answer, or has not been migrated") from error


def _result(check: Callable[[], None]) -> str:
    try:
        check()
    except HubError as error:
        return error.message
    return "ok"
