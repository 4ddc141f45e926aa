"""Fixtures for everybody."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.contrib.contenttypes.management import create_contenttypes
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import post_migrate
from envhub.client.telemetry.tracing import start_tracing, stop_tracing
from hypothesis import settings as hypothesis_settings
from pytest_django.plugin import DjangoDbBlocker

from hub.core import clock
from tests.fakes.otlp_receiver import OtlpReceiver

if TYPE_CHECKING:
    from tests.hub.web.browser import LookAt

search_index = import_module("hub.registry.migrations.0002_search_index")

settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a slow one is slow on purpose
settings.WHITENOISE_AUTOREFRESH = True  # else each test client lists and opens all static files before its first answer

hypothesis_settings.register_profile("shared-machine", deadline=None)  # it may be slow at times
hypothesis_settings.load_profile("shared-machine")


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    """A collector of traces that the environment names; nothing is traced until the test says so."""
    with OtlpReceiver() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running
        stop_tracing()


@pytest.fixture
def tracing(receiver: OtlpReceiver) -> OtlpReceiver:
    """A collector to which this process sends its spans."""
    start_tracing("test")
    return receiver


@pytest.fixture(scope="module")
def look_at() -> Iterator[LookAt]:
    """Opens pages in a browser, which a file's tests share.

    Playwright's synchronous API keeps an event loop in this thread, where Django refuses its database.
    """
    from tests.hub.web.browser import browser  # noqa: PLC0415 - few tests need Playwright

    with pytest.MonkeyPatch.context() as patch, browser() as look_at:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield look_at


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """A database of this process's own; on SQLite a file, since threads cannot share one in memory."""
    test = settings.DATABASES["default"].setdefault("TEST", {})
    if settings.DATABASES["default"]["ENGINE"].endswith("postgresql"):
        test["NAME"] = f"test_hub_{os.getpid()}"
        # No commit waits for the disk, which the suite keeps busy: this database need not outlive a crash.
        settings.DATABASES["default"].setdefault("OPTIONS", {})["options"] = "-c synchronous_commit=off"
    else:
        test["NAME"] = str(settings.HUB.data / "test.sqlite3")
    settings.MIGRATION_MODULES = {app.label: None for app in apps.get_app_configs()}  # until it is made


def delete_all(style: Any, tables: list[str], **_: bool) -> list[str]:
    """What empties tables of few rows: TRUNCATE makes the files of each table and index anew, seconds of the disk's.

    Foreign keys are deferred: the order does not matter.
    """
    return ["; ".join(f"DELETE FROM {connection.ops.quote_name(table)}" for table in tables)] if tables else []


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Made once, from the models, in a third of the time that migrations take: `make check` says that they lead to the
    same, and the hubs of end-to-end tests take that way. A flushed database, after each test with transactions,
    gets no types and permissions: nobody asks.

    Before it is dropped, the connections end that threads of live servers have left open.
    """
    if connection.vendor == "postgresql":
        connection.ops.sql_flush = delete_all
        clock.EVERY_S = math.inf  # tests that count queries would count its looks
        with django_db_blocker.unblock():
            clock.now()
    settings.MIGRATION_MODULES = {}
    with django_db_blocker.unblock():
        with connection.schema_editor() as editor:
            search_index.create(None, editor)
        recorder = MigrationRecorder(connection)
        recorder.ensure_schema()
        made = MigrationLoader(connection).disk_migrations
        recorder.migration_qs.bulk_create(recorder.Migration(app=app, name=name) for app, name in made)
    post_migrate.disconnect(create_contenttypes)
    post_migrate.disconnect(create_permissions, dispatch_uid="django.contrib.auth.management.create_permissions")
    yield
    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
