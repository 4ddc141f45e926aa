"""Every page of a used hub and of an empty one, in three widths and both themes.

PICTURES=DIR also photographs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from hub.accounts.models import User
from tests.factories.accounts import make_token, make_user
from tests.factories.training_showcase import make_training_showcase
from tests.hub.training import addresses as training
from tests.hub.web import addresses as web
from tests.hub.web.browser import LookAt
from tests.hub.web.gallery import MODES, found_by_links, inspect
from tests.hub.web.showcase import make_showcase

pytestmark = [pytest.mark.browser, pytest.mark.matrix, pytest.mark.django_db(transaction=True)]
SIGNED_OUT = ("/", "/login", "/signup", "/environments", "/docs", "/no-such-page")


def _used() -> tuple[User, list[str]]:
    showcase = make_showcase(examples=14)
    make_token(showcase.user)
    return showcase.user, [web.address(showcase, name) for name in web.NAMES]


def _training() -> tuple[User, list[str]]:
    showcase = make_training_showcase(make_user("ada"), steps=30, of=40)
    return showcase.user, [training.address(showcase, name) for name in training.NAMES]


def _administered() -> tuple[User, list[str]]:
    return make_user("ada", is_superuser=True), ["/"]


@pytest.mark.parametrize(("width", "scheme"), MODES)
@pytest.mark.parametrize("hub", [_used, _training, _administered])
def test_no_page_has_a_fault(
    live_server: LiveServer,
    look_at: LookAt,
    hub: Callable[[], tuple[User, list[str]]],
    width: int,
    scheme: str,
) -> None:
    client, (user, first) = Client(), hub()
    client.force_login(user)
    with look_at(live_server.url, session=client.cookies["sessionid"].value, width=width, scheme=scheme) as look:
        pages = found_by_links(look, first, each=1)
        assert list(inspect(look, pages, _pictures(f"{hub.__name__.strip('_')}-{width}-{scheme}"))) == []


@pytest.mark.parametrize(("width", "scheme"), MODES)
def test_no_page_has_a_fault_before_one_signs_in(
    live_server: LiveServer, look_at: LookAt, width: int, scheme: str
) -> None:
    with look_at(live_server.url, width=width, scheme=scheme) as look:
        assert list(inspect(look, list(SIGNED_OUT), _pictures(f"signed-out-{width}-{scheme}"))) == []


def _pictures(folder: str) -> str:
    to = os.environ.get("PICTURES", "")
    if to:
        Path(to, folder).mkdir(parents=True, exist_ok=True)
    return f"{to}/{folder}/{{}}.png" if to else ""
