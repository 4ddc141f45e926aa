"""The per-owner index: its pages, their validators, and who may see what."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.accounts.users import Scope
from pytest_django import DjangoAssertNumQueries

from hub.accounts.models import User
from hub.registry.models import Environment, Version
from hub.registry.services import delete_version, yank_version
from hub.runs.models import Run
from tests.factories.accounts import make_token, make_user
from tests.factories.registry import push_version
from tests.factories.runs import hold_run

pytestmark = pytest.mark.django_db
JSON = "application/vnd.pypi.simple.v1+json"


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def get(path: str, *, secret: str = "", accept: str = JSON, **headers: str) -> Any:
    if secret:
        headers["Authorization"] = "Basic " + base64.b64encode(f"anyone:{secret}".encode()).decode()
    return Client(headers={"Accept": accept, **headers}).get(f"/index/{path}")


def files(path: str = "alice/simple/tiny-env/", **kwargs: Any) -> list[dict[str, Any]]:
    answer = get(path, **kwargs)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["files"]
    return found


def test_a_project_lists_wheel_and_sdist_with_hashes(alice: User) -> None:
    version = push_version(alice, requires_python=">=3.12,<4")
    wheel, sdist = files()
    assert wheel["hashes"] == {"sha256": version.wheel_id}
    assert wheel["core-metadata"] == {"sha256": version.metadata_id}
    assert (wheel["requires-python"], wheel["yanked"], wheel["size"]) == (">=3.12,<4", False, version.wheel.size)
    assert (sdist["hashes"], sdist["core-metadata"]) == ({"sha256": version.sdist_id}, False)


def test_the_html_page_says_the_same(alice: User) -> None:
    version = push_version(alice, requires_python=">=3.12,<4")
    page = get("alice/simple/tiny-env/", accept="text/html").content.decode()
    assert f"#sha256={version.wheel_id}" in page
    assert 'data-requires-python="&gt;=3.12,&lt;4"' in page
    assert f'data-core-metadata="sha256={version.metadata_id}"' in page


def test_a_yanked_version_stays_listed_with_its_reason(alice: User) -> None:
    yank_version(version=push_version(alice), yanked=True, reason='wrong <b>"reward"</b>')
    assert files()[0]["yanked"] == 'wrong <b>"reward"</b>'
    page = get("alice/simple/tiny-env/", accept="text/html").content.decode()
    assert 'data-yanked="wrong &lt;b&gt;&quot;reward&quot;&lt;/b&gt;"' in page


def test_a_yank_without_a_reason_is_still_one(alice: User) -> None:
    yank_version(version=push_version(alice), yanked=True)
    assert files()[0]["yanked"] is True


def test_files_and_metadata_are_served_at_stable_addresses(alice: User) -> None:
    version = push_version(alice)
    address = f"alice/files/{version.wheel_id}/{version.wheel_filename}"
    wheel, metadata = get(address), get(f"{address}.metadata")
    assert b"".join(wheel.streaming_content).startswith(b"PK")
    assert b"".join(metadata.streaming_content).startswith(b"Metadata-Version")
    assert wheel["Content-Disposition"].startswith("attachment")
    assert get(address, Range="bytes=0-1").status_code == 206


def test_a_wrong_name_under_a_right_hash_is_absent(alice: User) -> None:
    version = push_version(alice)
    assert get(f"alice/files/{version.wheel_id}/evil.html").status_code == 404
    assert get(f"alice/files/{version.sdist_id}/{version.sdist_filename}.metadata").status_code == 404


@pytest.mark.parametrize("name", ["Tiny_Env", "tiny.env", "TINY--ENV"])
def test_names_are_normalised_by_redirect(alice: User, name: str) -> None:
    push_version(alice)
    answer = get(f"alice/simple/{name}/")
    assert (answer.status_code, answer["Location"]) == (301, "/index/alice/simple/tiny-env/")


def test_a_missing_slash_is_added(alice: User) -> None:
    assert get("alice/simple")["Location"] == "/index/alice/simple/"
    assert get("alice/simple/Tiny_env")["Location"] == "/index/alice/simple/tiny-env/"


def test_a_page_that_has_not_changed_is_not_sent_again(alice: User) -> None:
    push_version(alice)
    Environment.objects.update(updated_at=timezone.now() - timedelta(minutes=1))
    first = get("alice/simple/tiny-env/")
    assert get("alice/simple/tiny-env/", **{"If-None-Match": first["ETag"]}).status_code == 304
    assert get("alice/simple/tiny-env/", **{"If-Modified-Since": first["Last-Modified"]}).status_code == 304
    assert get("alice/simple/tiny-env/", accept="text/html")["ETag"] != first["ETag"]


def test_every_change_makes_a_new_page(alice: User) -> None:
    version = push_version(alice)
    seen = {get("alice/simple/tiny-env/")["ETag"]}
    newer = push_version(alice, version="0.2.0")
    seen.add(get("alice/simple/tiny-env/")["ETag"])
    yank_version(version=version, yanked=True)
    seen.add(get("alice/simple/tiny-env/")["ETag"])
    delete_version(version=newer)
    seen.add(get("alice/simple/tiny-env/")["ETag"])
    assert len(seen) == 4


def test_the_answer_depends_on_accept_and_credentials(alice: User) -> None:
    push_version(alice)
    vary = {name.strip() for name in get("alice/simple/tiny-env/")["Vary"].split(",")}
    assert {"Accept", "Authorization"} <= vary


def test_the_owners_page_lists_what_the_caller_may_see(alice: User) -> None:
    push_version(alice, "open-env")
    push_version(alice, "closed-env", private=True)
    names = [[item["name"] for item in get("alice/simple/", secret=secret).json()["projects"]] for secret in
             ("", make_token(make_user()), make_token(alice))]  # fmt: skip
    assert names == [["open-env"], ["open-env"], ["closed-env", "open-env"]]


def test_a_private_package_is_absent_for_others_in_every_route(alice: User) -> None:
    push_version(alice, "open-env")
    version = push_version(alice, private=True)
    stranger = make_token(make_user())
    address = f"alice/files/{version.wheel_id}/{version.wheel_filename}"
    for path in ("alice/simple/tiny-env/", address, f"{address}.metadata"):
        assert get(path, secret=make_token(alice)).status_code == 200
        absent = get(path.replace("tiny", "never"), secret=stranger)
        hidden = get(path, secret=stranger)
        assert (hidden.status_code, get(path).status_code) == (404, 404)
        assert hidden.content == absent.content.replace(b"never", b"tiny")


def test_who_sees_nothing_of_an_owner_is_asked_to_sign_in(alice: User) -> None:
    push_version(alice, private=True)
    for path in ("alice/simple/tiny-env/", "alice/simple/", "nobody/simple/tiny-env/", "nobody/simple/"):
        answer = get(path)
        assert (answer.status_code, answer["WWW-Authenticate"].split()[0]) == (401, "Basic")
    assert get("alice/simple/tiny-env/", secret=make_token(make_user())).status_code == 404


def test_bad_credentials_are_refused_even_for_public_packages(alice: User) -> None:
    push_version(alice)
    assert get("alice/simple/tiny-env/", secret="hub_wrong").status_code == 401
    assert get("alice/simple/tiny-env/", Authorization="Basic %%%").status_code == 401


def test_a_token_that_may_not_read_is_refused(alice: User) -> None:
    push_version(alice)
    assert get("alice/simple/tiny-env/", secret=make_token(alice, Scope.INFERENCE)).status_code == 403


def test_a_build_sees_its_owners_private_packages(alice: User) -> None:
    version = push_version(alice, private=True)
    secret = hold_run(Run.objects.get(pk=version.build_run_id))
    assert len(files(secret=secret)) == 2
    other = push_version(make_user("bob"), "bobs-env")
    stranger = hold_run(Run.objects.get(pk=other.build_run_id))
    assert get("alice/simple/tiny-env/", secret=stranger).status_code == 404


def test_a_form_that_nobody_speaks_is_406(alice: User) -> None:
    push_version(alice)
    assert get("alice/simple/tiny-env/", accept="application/json").status_code == 406


def test_a_page_costs_two_queries_however_many_versions(
    alice: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(3):
        push_version(alice, version=f"0.{number}.0")
    with django_assert_num_queries(2):
        assert len(files()) == 6
    with django_assert_num_queries(1):
        version = Version.objects.all()[0]
    with django_assert_num_queries(1):
        get(f"alice/files/{version.wheel_id}/{version.wheel_filename}")


def test_a_proxy_may_keep_for_a_second_what_everybody_sees(alice: User) -> None:
    push_version(alice)
    for page in ("alice/simple/", "alice/simple/tiny-env/"):
        assert get(page)["X-Accel-Expires"] == "1"
        assert "X-Accel-Expires" not in get(page, secret=make_token(alice, Scope.READ))
    assert "X-Accel-Expires" not in get("alice/simple/absent/")
