"""One hub for all end-to-end tests of a test process."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.operators_server import word_server
from tests.e2e.places import Place, place_with_containers
from tests.e2e.services import service_settings
from tests.e2e.stack import Stack, running_stack
from tests.fakes.otlp_receiver import OtlpReceiver


@pytest.fixture(scope="session")
def permitted_host() -> Iterator[str]:
    """host:port of the only server that the hub's operator lets boxes reach; "" where there can be none."""
    with word_server() as address:
        yield address


@pytest.fixture(scope="session")
def receiver() -> Iterator[OtlpReceiver]:
    """Where all of the hub's processes send their spans."""
    with OtlpReceiver() as running:
        yield running


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, permitted_host: str, receiver: OtlpReceiver) -> Iterator[Stack]:
    """A running hub with a worker, both traced."""
    permitted = {"HUB_BOX_ALLOW_HOSTS": json.dumps([permitted_host] if permitted_host else [])}
    with (
        service_settings() as settings,
        running_stack(tmp_path_factory.mktemp("hub"), {**settings, **permitted, **receiver.environment}) as running,
    ):
        yield running


@pytest.fixture(scope="module", params=["bwrap", "podman"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A running hub for each backend of sandboxes."""
    if request.param == "bwrap":
        yield Place(request.getfixturevalue("stack"), None)
    else:
        with place_with_containers(tmp_path_factory.mktemp("hub")) as found:
            yield found
