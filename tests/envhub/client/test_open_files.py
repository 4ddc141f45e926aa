"""A process of ours that was started with the usual 1024 open files may have more, as far as its system allows."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest
from envhub.client.open_files import WANTED, allow_open_files


@pytest.fixture(autouse=True)
def usual_limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_is_raised_within_the_hard_one() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    assert allow_open_files() == allowed
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (allowed, hard)
