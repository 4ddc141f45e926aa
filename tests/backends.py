"""A pytest plugin, loaded before Django: points the hub at a throw-away DATA and at the backends under test.

TEST_BACKEND=embedded (default): SQLite and the filesystem broker. TEST_BACKEND=services: Postgres and Redis.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path

BACKEND = os.environ.get("TEST_BACKEND", "embedded")
DATABASE_URL = os.environ.get("TEST_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
REDIS_URL = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/0")


def _keep_bytecode() -> None:
    """Also where the environment forbids it: else each of the hundreds of processes compiles all that it imports."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def _prepare() -> None:
    _keep_bytecode()
    # Several tests run at once, and torch's threads wait for each other in a loop.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    data = Path(tempfile.mkdtemp(prefix="hub-test-"))
    os.environ["HUB_DATA"] = str(data)
    os.environ["HUB_SECRET_KEY"] = "test-secret-key-test-secret-key-test-secret-key"
    os.environ["HUB_BASE_URL"] = "http://127.0.0.1:8000"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hub.config.settings")
    if BACKEND == "services":
        os.environ["HUB_DATABASE_URL"] = DATABASE_URL
        os.environ["HUB_BROKER_URL"] = REDIS_URL
    else:
        os.environ.pop("HUB_DATABASE_URL", None)
        os.environ.pop("HUB_BROKER_URL", None)


_prepare()


def pytest_collection() -> None:
    """Imports all that is tested: seconds, in which there is no garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was loaded stays."""
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    """Says on which backends this run tests."""
    if BACKEND == "services":
        return "hub backends: Postgres and Redis"
    return "hub backends: SQLite and the filesystem broker"
