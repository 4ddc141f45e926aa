"""The pages for administrators: what they say of the whole hub, within few queries, and to nobody else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.sandboxes.live import LiveReport
from pytest_django import DjangoAssertNumQueries

from hub.accounts.models import User
from hub.data.models import Snapshot
from hub.registry.models import VersionUse
from hub.runs.live_sandboxes import note_sandboxes
from hub.runs.models import Run
from hub.storage.services import store_bytes
from tests.factories.accounts import make_user
from tests.factories.registry import create_ready_version
from tests.factories.runs import hold_run, make_run
from tests.factories.sandboxes import create_running

pytestmark = pytest.mark.django_db
PAGES = ("queue", "sandboxes", "storage", "data")
MOST_QUERIES = 40  # of the queue, three of them for each kind of run


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def browser(client: Client) -> Client:
    client.force_login(make_user("grace", is_superuser=True))
    return client


def page(browser: Client, name: str) -> str:
    reply = browser.get(f"/administration/{name}")
    assert reply.status_code == 200
    return reply.content.decode()


def test_the_queue_says_how_much_waits_and_for_what(browser: Client, alice: User) -> None:
    runs = [make_run(owner=alice.owner, kind=RunKind.BUILD, subject=f"alice/env-{n}") for n in range(3)]
    html = page(browser, "queue")
    assert "no worker (3)" in html
    assert html.index("alice/env-0") < html.index("alice/env-2")
    assert "alice/env-2" in page(browser, f"queue?after={runs[1].pk}")
    assert "alice/env-1" not in page(browser, f"queue?after={runs[1].pk}")
    browser.post(f"/runs/{runs[0].pk}/cancel")
    assert Run.objects.get(pk=runs[0].pk).state == RunState.CANCELLED


def test_all_sandboxes_are_shown_by_owner_with_those_inside_of_runs(browser: Client, alice: User) -> None:
    create_running(alice, name="mine")
    run = make_run(owner=make_user("bob").owner, kind=RunKind.EVAL, subject="bob/env")
    hold_run(run)
    run.refresh_from_db()
    note_sandboxes(run=run, report=LiveReport(living=7), now=timezone.now())
    html = page(browser, "sandboxes")
    assert '>alice</a> <span class="muted">1</span>' in html
    assert ("mine" in html, "bob/env" in html, ">7<" in html) == (True, True, True)


def test_storage_is_by_owner_with_what_the_last_pass_found(browser: Client, alice: User) -> None:
    store_bytes(b"x" * 3_000_000, holder=alice.owner.pk)
    assert "No pass has finished yet" in page(browser, "storage")
    call_command("collect_garbage")
    html = page(browser, "storage")
    assert html.count("3.0 MB") >= 2, "in all, and alice's"
    assert ("Too recent to delete" in html, ">alice</a>" in html) == (True, True)


def test_a_data_set_names_who_uses_it_and_is_forgotten(browser: Client, alice: User) -> None:
    version = create_ready_version(alice)
    Snapshot.objects.create(kind="dataset", repository="openai/gsm8k", revision="0" * 40, pinned=True)
    VersionUse.objects.create(version=version, kind=NeedKind.DATA_SET.value, name="openai/gsm8k", revision="0" * 40)
    assert "alice/tiny-env" in page(browser, "data")
    browser.post("/administration/data/forget", {"kind": "dataset", "repository": "openai/gsm8k"})
    assert not Snapshot.objects.exists()
    assert "No data sets yet" in page(browser, "data")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_costs_the_same_however_much_there_is(
    browser: Client, alice: User, name: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(12):
        make_run(owner=alice.owner, kind=RunKind.BUILD)
        create_running(alice, name=f"box-{number}")
        Snapshot.objects.create(kind="dataset", repository=f"a/{number}", revision="0" * 40, pinned=True)
    Run.objects.filter(kind="build").update(created_at=timezone.now() - timedelta(hours=1))
    with django_assert_max_num_queries(MOST_QUERIES):
        page(browser, name)


def test_pages_are_narrowed_by_what_their_filters_name(browser: Client, alice: User) -> None:
    bob = make_user("bob")
    for owner, kind in ((alice.owner, RunKind.BUILD), (bob.owner, RunKind.EVAL)):
        make_run(owner=owner, kind=kind, subject=f"{owner.slug}/env")
    create_running(alice, name="of-alice")
    create_running(bob, name="of-bob")
    for name, size in (("lab/small", 1), ("lab/large", 9), ("other/data", 5)):
        row = Snapshot.objects.create(kind="dataset", repository=name, revision=name, pinned=True)
        row.files.create(path="x", size=size)
    queue = page(browser, "queue?kind=build")
    assert ("alice/env" in queue, "bob/env" in queue) == (True, False)
    assert "bob/env" not in page(browser, "queue?owner=alice")
    boxes = page(browser, "sandboxes?owner=bob")
    assert ("of-bob" in boxes, "of-alice" in boxes) == (True, False)
    data = page(browser, "data?q=LAB&sort=size")
    assert data.index("lab/large") < data.index("lab/small")
    assert "other/data" not in data
