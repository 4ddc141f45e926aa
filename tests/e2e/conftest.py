"""One hub for all end-to-end tests of a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.services import service_settings
from tests.e2e.stack import Stack, running_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A running hub with a worker."""
    with service_settings() as settings, running_stack(tmp_path_factory.mktemp("hub"), settings) as running:
        yield running
