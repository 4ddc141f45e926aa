"""A push over HTTP: what is missing goes up, what is there is a no-op, what differs is refused."""

from __future__ import annotations

import gzip
import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from envhub.protocol.registry.packages import GitState
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.registry.models import Environment, Version
from hub.runs.models import Run
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import Pair, build_pair, push_pair, push_version, upload
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return make_user("alice")


def begin(user: User, pair: Pair, owner: str = "alice", **fields: Any) -> Any:
    request = pair.request(**fields).model_dump(mode="json")
    return call(user, "post", f"environments/{owner}/{pair.name}/pushes", request)


def push(user: User, pair: Pair, **fields: Any) -> Any:
    begun = begin(user, pair, **fields).json()
    upload(Client(), begun["missing"], pair)
    return call(user, "post", f"environments/alice/{pair.name}/pushes/{begun['push_id']}/complete")


def test_a_push_makes_a_version_and_queues_its_build(user: User) -> None:
    answer = push(user, build_pair(), git=GitState(commit="abc123", dirty=True))
    assert answer.status_code == 201, answer.content
    version = answer.json()["version"]
    assert (version["owner"], version["name"], version["version"], version["state"]) == (
        *("alice", "tiny-env", "0.1.0"),
        "building",
    )
    assert version["git"] == {"commit": "abc123", "dirty": True, "branch": ""}
    assert version["generation"]["generation"] == "legacy"
    run = Run.objects.get(pk=answer.json()["build_run_id"])
    assert (run.kind, run.queue, run.state, run.subject) == ("build", "build", "queued", "alice/tiny-env@0.1.0")


def test_everything_is_read_from_the_archives(user: User) -> None:
    push(user, build_pair(requires=["verifiers>=0.1.8", "numpy>1"], requires_python=">=3.12"))
    version = Version.objects.get()
    assert version.dependencies == ["verifiers>=0.1.8", "numpy>1"]
    assert (version.requires_python, version.module, version.readme) == (">=3.12", "tiny_env", "# Hello")
    assert ["tiny_env.py", len(version.files)] == [version.files[-1][0], 4]
    assert Environment.objects.get().description == "A small environment."


def test_the_hub_asks_only_for_what_it_lacks(user: User) -> None:
    pair = build_pair()
    push(user, pair)
    other = build_pair(files={"more.txt": "new"})
    assert len(begin(user, other).json()["missing"]) == 2
    assert begin(user, pair).json()["missing"] == []


def test_the_same_files_again_change_nothing(user: User) -> None:
    pair = build_pair()
    first = push(user, pair).json()
    assert begin(user, pair).json()["unchanged"] is True
    again = push(user, pair)
    assert (again.status_code, again.json()["created"], again.json()["build_run_id"]) == (200, False, None)
    assert again.json()["version"]["id"] == first["version"]["id"]


def test_a_rebuild_of_the_same_sources_changes_nothing(user: User, repacked: Pair) -> None:
    push(user, build_pair())
    answer = push(user, repacked)
    assert (answer.status_code, answer.json()["created"]) == (200, False)
    assert Version.objects.count() == 1


def test_the_same_version_with_other_content_is_a_conflict(user: User) -> None:
    push(user, build_pair())
    answer = push(user, build_pair(files={"more.txt": "new"}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "version_exists")
    assert "--bump" in answer.json()["error"]["hint"]


def test_a_trailing_zero_is_no_new_version(user: User) -> None:
    push(user, build_pair(version="1.0"))
    answer = push(user, build_pair(version="1.0.0"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "version_exists")


def test_completing_twice_answers_the_same_version(user: User) -> None:
    pair = build_pair()
    begun = begin(user, pair).json()
    upload(Client(), begun["missing"], pair)
    path = f"environments/alice/tiny-env/pushes/{begun['push_id']}/complete"
    first, second = call(user, "post", path).json(), call(user, "post", path).json()
    assert first == second
    assert Run.objects.count() == 1


def test_completing_without_the_bytes_names_what_is_missing(user: User) -> None:
    unique = build_pair(files={"never.txt": uuid.uuid4().hex})  # stored bytes outlive a test
    begun = begin(user, unique).json()
    answer = call(user, "post", f"environments/alice/tiny-env/pushes/{begun['push_id']}/complete")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "blob_missing")


def test_a_request_that_misnames_the_package_is_refused(user: User) -> None:
    pair = build_pair("other-env")
    lie = Pair(
        "tiny-env", pair.version, "tiny_env-0.1.0-py3-none-any.whl", pair.wheel, "tiny_env-0.1.0.tar.gz", pair.sdist
    )
    answer = push(user, lie)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "metadata_mismatch")
    assert not Environment.objects.exists()


def test_file_names_of_another_version_are_refused_before_any_upload(user: User) -> None:
    pair = build_pair()
    request = pair.request().model_dump(mode="json") | {"version": "0.2.0"}
    answer = call(user, "post", "environments/alice/tiny-env/pushes", request)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "name_mismatch")


def test_a_file_over_the_limit_is_refused_before_any_upload(user: User) -> None:
    request = build_pair().request().model_dump(mode="json")
    request["wheel"]["size"] = 251 * 1024 * 1024
    answer = call(user, "post", "environments/alice/tiny-env/pushes", request)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert "251 MB" in answer.json()["error"]["message"]
    assert "hub data add" in answer.json()["error"]["hint"]


def test_a_stranger_cannot_push_to_somebody_elses_namespace(user: User) -> None:
    assert begin(make_user("bob"), build_pair()).status_code == 404


def test_a_reader_of_a_team_cannot_push(user: User) -> None:
    make_owner("team", members=[user], role="reader")
    assert begin(user, build_pair(), owner="team").status_code == 403


def test_a_new_environment_is_public_and_a_push_can_make_it_private(user: User) -> None:
    push_version(user)
    assert Environment.objects.get().is_public
    push_pair(user, build_pair(version="0.2.0"), visibility=Visibility.PRIVATE)
    assert not Environment.objects.get().is_public
    push_version(user, version="0.3.0")
    assert not Environment.objects.get().is_public


@pytest.mark.parametrize("packed_anew", [False, True])
def test_content_that_is_there_already_is_made_private_by_a_push_that_says_so(user: User, packed_anew: bool) -> None:
    pair = build_pair()
    push_pair(user, pair)
    if packed_anew:
        pair = replace(pair, sdist=gzip.compress(gzip.decompress(pair.sdist), compresslevel=1))
    done = push_pair(user, pair, visibility=Visibility.PRIVATE)
    assert (done.created, Environment.objects.get().is_public) == (False, False)
    push_pair(user, pair)
    assert not Environment.objects.get().is_public


def test_a_description_written_by_hand_survives_a_push(user: User) -> None:
    push_version(user)
    Environment.objects.update(description="By hand")
    push_version(user, version="0.2.0")
    assert Environment.objects.get().description == "By hand"
