"""The skeleton stands: the suite sees the backends that it was asked for."""

import pytest
from django.db import connection

from tests import backends


@pytest.mark.django_db
def test_the_suite_runs_on_the_backend_that_was_asked_for() -> None:
    assert connection.vendor == {"embedded": "sqlite", "services": "postgresql"}[backends.BACKEND]
