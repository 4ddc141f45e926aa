"""Versions over HTTP: list, latest, files, downloads, yank, delete, rebuild."""

from __future__ import annotations

import pytest
from django.db import models
from django.db.models import ProtectedError
from django.test import TestCase

from hub.accounts.models import User
from hub.registry.models import Environment, Version
from hub.registry.services import delete_environment, delete_version
from hub.runs.models import Run
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import build_pair, push_pair, push_version
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
BASE = "environments/alice/tiny-env/versions"


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def latest() -> str | None:
    version: str | None = call(None, "get", "environments/alice/tiny-env").json()["latest_version"]
    return version


def test_latest_is_the_newest_by_pep_440_not_by_push(alice: User) -> None:
    for number in ("0.10.0", "0.9.0", "0.11.0a1"):
        push_version(alice, version=number)
    assert latest() == "0.10.0"
    assert call(None, "get", f"{BASE}/latest").json()["version"] == "0.10.0"


def test_a_pre_release_is_latest_only_when_there_is_nothing_else(alice: User) -> None:
    push_version(alice, version="1.0.dev1")
    assert latest() == "1.0.dev1"


def test_yanking_moves_latest_and_undoing_it_moves_it_back(alice: User) -> None:
    push_version(alice, version="0.1.0")
    push_version(alice, version="0.2.0")
    answer = call(alice, "patch", f"{BASE}/0.2.0/yank", {"yanked": True, "reason": "wrong reward"})
    assert (answer.json()["yanked"], answer.json()["yank_reason"]) == (True, "wrong reward")
    assert latest() == "0.1.0"
    assert call(None, "get", f"{BASE}/0.2.0").status_code == 200
    call(alice, "patch", f"{BASE}/0.2.0/yank", {"yanked": False})
    assert latest() == "0.2.0"


def test_an_environment_whose_versions_are_all_yanked_says_so(alice: User) -> None:
    push_version(alice, version="0.1.0")
    call(alice, "patch", f"{BASE}/0.1.0/yank", {"yanked": True})
    answer = call(None, "get", f"{BASE}/latest")
    assert (answer.status_code, "only yanked versions" in answer.json()["error"]["message"]) == (404, True)


def test_versions_are_listed_by_push_and_without_their_heavy_parts(alice: User) -> None:
    push_version(alice, version="0.2.0")
    push_version(alice, version="0.1.0")
    assert [item["version"] for item in call(None, "get", BASE).json()["items"]] == ["0.1.0", "0.2.0"]


@pytest.mark.parametrize("written", ["1.0", "1.0.0", "v1.0"])
def test_a_version_may_be_written_in_any_equal_form(alice: User, written: str) -> None:
    push_version(alice, version="1.0")
    assert call(None, "get", f"{BASE}/{written}").json()["version"] == "1.0"


@pytest.mark.parametrize("version", ["2.0", "nonsense"])
def test_an_absent_version_is_not_found(alice: User, version: str) -> None:
    push_version(alice)
    assert call(None, "get", f"{BASE}/{version}").status_code == 404


def test_the_files_of_the_sdist_are_listed_in_pages(alice: User) -> None:
    push_version(alice, files={"data/rows.jsonl": "{}", "pixel.png": b"\x89PNG\0"})
    first = call(None, "get", f"{BASE}/0.1.0/files?limit=4").json()
    assert [item["path"] for item in first["items"]] == ["PKG-INFO", "README.md", "data/rows.jsonl", "pixel.png"]
    rest = call(None, "get", first["next"].partition("/api/v1/")[2]).json()
    assert ([item["path"] for item in rest["items"]], rest["next"]) == (["pyproject.toml", "tiny_env.py"], None)


def test_a_files_text_is_shown_and_a_binary_files_is_not(alice: User) -> None:
    push_version(alice, files={"data/rows.jsonl": '{"é": 1}', "pixel.png": b"\x89PNG\0", "big.txt": "é" * 300_000})
    text = call(None, "get", f"{BASE}/0.1.0/files?path=data/rows.jsonl").json()
    assert (text["text"], text["truncated"]) == ('{"é": 1}', False)
    assert call(None, "get", f"{BASE}/0.1.0/files?path=pixel.png").json()["text"] is None
    big = call(None, "get", f"{BASE}/0.1.0/files?path=big.txt").json()
    assert (big["truncated"], len(big["text"])) == (True, 262_144)
    assert call(None, "get", f"{BASE}/0.1.0/files?path=../../etc/passwd").status_code == 404


def test_a_download_is_a_redirect_to_the_bytes(alice: User) -> None:
    version = push_version(alice)
    answer = call(None, "get", f"{BASE}/latest/download/sdist")
    assert answer.status_code == 302
    found = call(None, "get", answer["Location"].partition("/api/v1/")[2])
    assert found["Content-Disposition"] == f'attachment; filename="{version.sdist_filename}"'
    assert call(None, "get", f"{BASE}/latest/download/secrets").status_code == 404


def test_deleting_a_version_frees_its_number_and_cancels_its_build(alice: User) -> None:
    push_version(alice)
    push_version(alice, version="0.2.0")
    with TestCase.captureOnCommitCallbacks(execute=True):
        assert call(alice, "delete", f"{BASE}/0.2.0").status_code == 204
    assert latest() == "0.1.0"
    assert Run.objects.get(subject="alice/tiny-env@0.2.0").state == "cancelled"
    assert push_pair(alice, build_pair(version="0.2.0", files={"new.txt": "new"})).created


def test_what_is_referred_to_cannot_be_deleted(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    version = push_version(alice)

    def refuse(self: models.Model) -> None:
        raise ProtectedError("protected", {alice, make_user()})

    monkeypatch.setattr(Version, "delete", refuse)
    monkeypatch.setattr(Environment, "delete", refuse)
    answers = [call(alice, "delete", path) for path in (f"{BASE}/0.1.0", "environments/alice/tiny-env")]
    assert [answer.json()["error"]["code"] for answer in answers] == ["in_use", "in_use"]
    message = answers[0].json()["error"]["message"]
    assert "users refer to it" in message
    assert "2" not in message.replace("0.1.0", "")  # they may be others'
    assert Run.objects.get(pk=version.build_run_id).state == "queued"


def test_a_version_is_built_again_but_not_twice_at_once(alice: User) -> None:
    version = push_version(alice)
    assert call(alice, "post", f"{BASE}/0.1.0/rebuild").json()["error"]["code"] == "already_building"
    Run.objects.update(state="failed", failure={"kind": "environment", "code": "x", "message": "x", "hint": ""})
    Version.objects.update(state="invalid")
    answer = call(alice, "post", f"{BASE}/0.1.0/rebuild")
    assert (answer.status_code, answer.json()["state"]) == (202, "building")
    assert answer.json()["build_run_id"] != str(version.build_run_id)


def test_only_those_who_may_change_it(alice: User) -> None:
    push_version(alice)
    calls = [
        ("patch", f"{BASE}/0.1.0/yank", {"yanked": True}),
        ("post", f"{BASE}/0.1.0/rebuild", {}),
        ("delete", f"{BASE}/0.1.0", None),
        ("patch", "environments/alice/tiny-env", {"visibility": "private"}),
        ("delete", "environments/alice/tiny-env", None),
    ]
    for method, path, body in calls:
        assert call(make_user(), method, path, body).status_code == 403
        assert call(None, method, path, body).status_code == 401
    Environment.objects.update(visibility="private")
    for method, path, body in calls:
        assert call(make_user(), method, path, body).status_code == 404


def test_a_member_of_a_team_may_yank_and_a_maintainer_may_delete(alice: User) -> None:
    bob = make_user("bob")
    team = make_owner("team", members=[bob])
    make_owner("other", members=[alice])
    push_pair(bob, build_pair(), owner=team)
    path = "environments/team/tiny-env"
    assert call(bob, "patch", f"{path}/versions/0.1.0/yank", {"yanked": True}).status_code == 200
    assert call(bob, "delete", path).status_code == 403
    team.memberships.update(role="maintainer")
    assert call(bob, "delete", path).status_code == 204
    assert not Environment.objects.exists()


def test_deleting_an_environment_deletes_its_versions(alice: User) -> None:
    push_version(alice)
    push_version(alice, version="0.2.0")
    delete_environment(environment=Environment.objects.get())
    assert not Version.objects.exists()


def test_deleting_the_last_version_leaves_an_environment_without_one(alice: User) -> None:
    delete_version(version=push_version(alice))
    assert latest() is None
