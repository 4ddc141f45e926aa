"""Which repositories of git boxes may clone, and from where."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from envhub.protocol.registry.files import RepositoryWanted
from envhub.protocol.runs import Claim, RunKind
from pydantic import ValidationError

from hub.core.errors import NotFound
from hub.data.repositories import repository_source
from tests.factories.runs import hold_run, make_run
from workers.rollouts import sandboxes
from workers.rollouts.outside.files import NotHere
from workers.runs.hub import RunClient, connect

MIRROR = "https://git.example.org/mirror/"


@pytest.fixture(autouse=True)
def hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    update = {
        "clone_hosts": ["github.com", "http://git.example.org:80"],
        "git_hosts": ["gitlab.com"],
        "git_mirrors": {"https://github.com/": MIRROR},
    }
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update=update))


def test_a_host_that_the_operator_lists_is_open_and_may_be_mirrored() -> None:
    assert repository_source("https://github.com/a/b.git") == "https://git.example.org/mirror/a/b.git"
    assert repository_source("http://git.example.org:80/a") == "http://git.example.org:80/a"


@pytest.mark.parametrize("url", ["https://gitlab.com/a/b", "http://github.com/a/b", "https://github.com:444/a/b"])
def test_any_other_is_closed_and_says_what_the_operator_sets(url: str) -> None:
    with pytest.raises(NotFound) as refused:
        repository_source(url)
    assert "HUB_CLONE_HOSTS" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "url", ["https://a@github.com/b/c", "https://evil.com\\@github.com/b", "https://github.com/a b", "-u", "file:///a"]
)
def test_what_two_programs_could_read_in_two_ways_is_no_address(url: str) -> None:
    with pytest.raises(ValidationError):
        RepositoryWanted(url=url)


@pytest.mark.django_db(transaction=True)
async def test_the_worker_of_a_run_asks_the_hub(served: str) -> None:
    run = await sync_to_async(make_run)()
    token = await sync_to_async(hold_run)(run)
    claim = Claim(
        run_id=str(run.pk), kind=RunKind.EVAL, attempt=1, token=token, lease_seconds=30, owner="a", payload={}
    )
    connection = connect(served, 1.0)
    client = RunClient(connection, served, claim)
    try:
        assert await sandboxes.repository_source(client, "https://github.com/a/b") == f"{MIRROR}a/b"
        with pytest.raises(NotHere, match="HUB_CLONE_HOSTS"):
            await sandboxes.repository_source(client, "https://gitlab.com/a/b")
    finally:
        await connection.http.aclose()
