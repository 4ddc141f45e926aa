"""Settings of how people sign in."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from pytest_django import Settings

from hub.config.sign_in import sign_in_settings


@pytest.fixture(autouse=True)
def _no_tries_of_other_tests(settings: Settings) -> None:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": uuid4().hex}}


@pytest.fixture
def configure(settings: Settings) -> Callable[..., None]:
    """`configure(signup="open")`: as if the hub had been started with HUB_SIGNUP=open."""

    def change(**values: object) -> None:
        settings.HUB = settings.HUB.model_copy(update=values)
        for name, value in sign_in_settings(settings.HUB).items():
            setattr(settings, name, value)

    return change
