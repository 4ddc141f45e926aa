"""A user with training runs, made once for the pages: each test undoes what it wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction
from django.test import Client
from pytest_django import DjangoDbBlocker

from tests.factories.accounts import make_user
from tests.factories.training_showcase import TrainingShowcase, make_training_showcase


@pytest.fixture(scope="module")
def shared_showcase(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[TrainingShowcase]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_training_showcase(make_user("ada"), steps=60, of=100)
        transaction.set_rollback(True)


@pytest.fixture
def showcase(shared_showcase: TrainingShowcase, db: None) -> TrainingShowcase:
    return shared_showcase


@pytest.fixture
def ada(showcase: TrainingShowcase) -> Client:
    """The browser of the user whose runs these are."""
    client = Client()
    client.force_login(showcase.user)
    return client


@pytest.fixture
def mallory(db: None) -> Client:
    """Somebody else's browser."""
    client = Client()
    client.force_login(make_user("mallory"))
    return client
