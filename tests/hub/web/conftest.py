"""A used hub for the pages, made once: each test undoes what it wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction
from django.test import Client
from pytest_django import DjangoDbBlocker

from hub.accounts.models import User
from tests.factories.accounts import make_user
from tests.hub.web.showcase import Showcase, make_showcase


@pytest.fixture(scope="module")
def shared_showcase(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Showcase]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_showcase(examples=14)
        transaction.set_rollback(True)


@pytest.fixture
def showcase(shared_showcase: Showcase, db: None) -> Showcase:
    return shared_showcase


@pytest.fixture
def ada(showcase: Showcase) -> Client:
    """The browser of the user whose things these are."""
    client = Client()
    client.force_login(showcase.user)
    return client


@pytest.fixture
def stranger(db: None) -> User:
    return make_user("mallory")


@pytest.fixture
def mallory(stranger: User) -> Client:
    client = Client()
    client.force_login(stranger)
    return client
