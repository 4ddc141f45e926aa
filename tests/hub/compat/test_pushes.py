"""`prime env push` makes the version that `hub push` would make."""

from __future__ import annotations

import pytest

from hub.accounts.models import Role
from hub.compat.models import BegunPush
from hub.registry.models import Environment, Version
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import build_pair, push_pair
from tests.hub.compat.prime_client import PrimeClient, packed, unpacked

pytestmark = pytest.mark.django_db


def test_a_push_makes_a_version_of_the_wheel_and_of_the_folder_beside_it() -> None:
    prime = PrimeClient(make_user("alice"))
    pair = build_pair(files={"data.txt": "rows"})
    reply = prime.push(pair, source=packed(pair, **{"README.md": "# Read", "scripts/run.sh": "echo"}))
    assert reply.json()["data"] == {"success": True, "version_id": "0.1.0", "message": "version 0.1.0"}
    version = Version.objects.get()
    assert version.wheel_filename == pair.wheel_filename
    assert version.build_run is not None
    assert {"README.md", "scripts/run.sh", "data.txt", "PKG-INFO"} <= {path for path, _ in version.files}
    assert not BegunPush.objects.exists()


def test_a_new_environment_is_private_unless_the_push_says_otherwise() -> None:
    prime = PrimeClient(make_user("alice"))
    prime.push(build_pair("kept"))
    prime.push(build_pair("shown"), visibility="PUBLIC")
    found = dict(Environment.objects.values_list("name", "visibility"))
    assert found == {"kept": "private", "shown": "public"}
    prime.push(build_pair("shown", "0.2.0"))
    assert Environment.objects.get(name="shown").visibility == "public"


def test_what_was_pushed_before_is_answered_again_and_other_content_is_refused_in_the_clients_words() -> None:
    prime = PrimeClient(make_user("alice"))
    pair = build_pair()
    assert prime.push(pair).status_code == 200
    assert prime.push(pair).status_code == 200
    assert Version.objects.count() == 1
    other = prime.push(pair, source=packed(pair, **{"README.md": "changed"}))
    assert other.status_code == 409
    assert "already exists with other content" in other.json()["detail"]
    assert "--auto-bump" in other.json()["detail"]


def test_a_push_of_hub_and_one_of_prime_go_on_with_each_other() -> None:
    alice = make_user("alice")
    push_pair(alice, build_pair())
    resolved = PrimeClient(alice).done("post", "environmentshub/resolve", {"name": "Tiny_Env"})
    assert (resolved["id"], resolved["created"]) == ("alice.tiny-env", False)
    assert PrimeClient(alice).push(build_pair(version="0.2.0")).status_code == 200
    assert set(Version.objects.values_list("version", flat=True)) == {"0.1.0", "0.2.0"}


@pytest.mark.parametrize("key", ["team_id", "team_slug", "owner_slug"])
def test_a_push_for_a_team_is_the_teams(key: str) -> None:
    alice = make_user("alice")
    make_owner("lab", members=[alice])
    assert PrimeClient(alice).push(build_pair(), **{key: "lab"}).status_code == 200
    assert Environment.objects.get().owner.slug == "lab"


def test_only_who_may_push_for_an_owner_may_announce_anything() -> None:
    alice, bob = make_user("alice"), make_user("bob")
    make_owner("lab", members=[alice, bob], role=Role.READER)
    prime = PrimeClient(bob)
    assert prime.call("post", "environmentshub/resolve", {"name": "x", "team_id": "lab"}).status_code == 403
    refused = prime.call("post", "environmentshub/resolve", {"name": "x", "team_id": "clm4no5000abcdefghijklmno"})
    assert refused.status_code == 404
    assert "prime switch" in refused.json()["detail"]
    assert prime.call("post", "environmentshub/alice.x/wheels", {}).status_code == 404


def test_an_upload_takes_the_bytes_that_were_announced_and_no_others() -> None:
    prime = PrimeClient(make_user("alice"))
    pair = build_pair()
    wheel = {"content_hash": "c", "filename": pair.wheel_filename, "sha256": "0" * 64, "size": len(pair.wheel)}
    url = prime.done("post", "environmentshub/alice.tiny-env/wheels", wheel)["upload_url"]
    assert prime.put(url, pair.wheel).json()["detail"].startswith("the bytes have another SHA-256")
    assert prime.put(url, pair.wheel + b"more").status_code == 413
    assert prime.put(url.replace("uploads/", "uploads/x"), pair.wheel).status_code == 403


@pytest.mark.parametrize(
    ("wheel", "said"),
    [
        ({"filename": "other-0.1.0-py3-none-any.whl"}, "no wheel of tiny-env"),
        ({"filename": "tiny_env.whl"}, "Invalid wheel filename"),
        ({"sha256": "zz"}, "64 hexadecimal digits"),
        ({"size": 10**12}, "may have 250"),
        ({"size": "many"}, "a wheel has a filename"),
        ({"content_hash": ""}, "content_hash is missing"),
    ],
)
def test_a_bad_announcement_says_what_is_wrong(wheel: dict[str, object], said: str) -> None:
    prime = PrimeClient(make_user("alice"))
    good = {"content_hash": "c", "filename": "tiny_env-0.1.0-py3-none-any.whl", "sha256": "0" * 64, "size": 10}
    refused = prime.call("post", "environmentshub/alice.tiny-env/wheels", good | wheel)
    assert refused.status_code in {413, 422}
    assert said in refused.json()["detail"]


def test_a_source_that_is_no_project_is_refused_and_may_be_sent_again() -> None:
    prime = PrimeClient(make_user("alice"))
    pair = build_pair()
    refused = prime.push(pair, source=b"no archive")
    assert refused.status_code == 422
    assert not Version.objects.exists()
    assert prime.push(pair).status_code == 200


def test_what_is_pulled_is_the_folder_that_was_pushed() -> None:
    prime = PrimeClient(make_user("alice"))
    pair = build_pair(files={"deep/er/data.txt": "rows"})
    source = packed(pair, **{"README.md": "# Read"})
    prime.push(pair, source=source)
    reply = prime.call("get", "environmentshub/alice/tiny-env/@latest/source")
    assert unpacked(b"".join(reply.streaming_content)) == unpacked(source)
