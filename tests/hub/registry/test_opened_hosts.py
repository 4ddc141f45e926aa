"""Versions that waited for a host are checked again at the hub's start once the operator lets it through, a few at a
time."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.utils import timezone
from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runs import RunState

from hub.registry.models import Version, VersionNeed
from hub.registry.services.opened import AT_ONCE, OpenedHosts
from hub.runs.models import Run
from hub.runs.sweeper import Sweeper
from tests.factories.accounts import make_user
from tests.factories.registry import create_needing_version

pytestmark = pytest.mark.django_db
GIT = Need(kind=NeedKind.GIT_HOST, name="git.example.org")


def set_hosts(monkeypatch: pytest.MonkeyPatch, **hosts: list[str]) -> None:
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update=hosts))


def needing(need: Need) -> Version:
    version = create_needing_version(need, user=make_user())
    Run.objects.update(state=RunState.SUCCEEDED.value)
    return version


def queued() -> int:
    return Run.objects.filter(state=RunState.QUEUED.value).count()


@pytest.mark.parametrize(
    ("kind", "name", "setting", "entry"),
    [
        (NeedKind.GIT_HOST, "git.example.org", "git_hosts", "*.example.org"),
        (NeedKind.CLONE_HOST, "git.example.org", "clone_hosts", "*.example.org"),
        (NeedKind.FILE, "https://raw.example.org/words.txt", "file_hosts", "raw.example.org"),
        (NeedKind.HOST, "raw.example.org:443", "file_hosts", "raw.example.org"),
        (NeedKind.CORPUS, "nltk:words", "file_hosts", "raw.githubusercontent.com"),
        (NeedKind.SANDBOX, "python:3.11-alpine", "image_registries", "docker.io=mirror.example.org"),
    ],
)
def test_a_version_is_checked_again_when_its_host_is_listed(
    monkeypatch: pytest.MonkeyPatch, kind: NeedKind, name: str, setting: str, entry: str
) -> None:
    version = needing(Need(kind=kind, name=name))
    set_hosts(monkeypatch, **{setting: [entry]})
    OpenedHosts().sweep()
    version.refresh_from_db()
    run = version.check_run or version.build_run
    assert run is not None
    assert run.state == RunState.QUEUED.value


def test_another_host_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    needing(GIT)
    set_hosts(monkeypatch, git_hosts=["github.com"], file_hosts=["git.example.org"])
    OpenedHosts().sweep()
    assert queued() == 0


def test_the_next_start_looks_only_for_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    set_hosts(monkeypatch, git_hosts=["git.example.org"])
    OpenedHosts().sweep()
    needing(GIT)  # its worker does not reach the host
    OpenedHosts().sweep()
    assert queued() == 0


def test_a_host_that_was_closed_meanwhile_is_new_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for hosts in (["git.example.org"], []):
        set_hosts(monkeypatch, git_hosts=hosts)
        OpenedHosts().sweep()
    needing(GIT)
    set_hosts(monkeypatch, git_hosts=["git.example.org"])
    OpenedHosts().sweep()
    assert queued() == 1


def test_no_more_builds_wait_than_others_can_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(AT_ONCE + 2):
        needing(GIT)
    set_hosts(monkeypatch, git_hosts=["git.example.org"])
    sweeping = OpenedHosts()
    for _ in range(3):
        sweeping.sweep()
    assert queued() == AT_ONCE
    Run.objects.filter(state=RunState.QUEUED.value).update(state=RunState.SUCCEEDED.value)
    sweeping.sweep()
    assert (queued(), VersionNeed.objects.filter(opened=True).count()) == (2, 0)


@pytest.mark.django_db(transaction=True)
def test_the_sweeper_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    needing(GIT)
    set_hosts(monkeypatch, git_hosts=["git.example.org"])
    monkeypatch.setattr("hub.runs.sweeper.all_chores", lambda: (OpenedHosts().sweep,))
    Sweeper().sweep(timezone.now())
    assert queued() == 1


def test_the_sweeper_goes_on_where_an_owner_has_as_many_waiting_as_he_may(monkeypatch: pytest.MonkeyPatch) -> None:
    version = needing(GIT)
    Run.objects.update(state=RunState.QUEUED.value)
    Version.objects.update(build_run=None)
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"git_hosts": ["*"], "owner_queued": 1}))
    OpenedHosts().sweep()
    version.refresh_from_db()
    assert (version.check_run or version.build_run) is not None
