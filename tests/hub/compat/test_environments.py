"""What `prime env list|info|status|inspect|install|delete` and `prime fork` are answered."""

from __future__ import annotations

import pytest

from hub.registry.models import Environment, Version
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import build_pair, create_ready_version, push_pair, push_version
from tests.hub.compat.prime_client import PrimeClient

pytestmark = pytest.mark.django_db
HUB = "environmentshub"


def test_a_list_is_narrowed_sorted_and_counted() -> None:
    alice, bob = make_user("alice"), make_user("bob")
    for name in ("one", "two"):
        push_pair(alice, build_pair(name))
    push_pair(bob, build_pair("three"))
    push_version(bob, "hidden", private=True)
    prime = PrimeClient(alice)

    def names(**query: object) -> list[str]:
        reply = prime.call("get", f"{HUB}/", **query).json()
        assert reply["total_count"] >= len(reply["data"])
        return [f"{row['owner']['name']}/{row['name']}" for row in reply["data"]]

    assert names() == ["bob/three", "alice/two", "alice/one"]
    assert names(sort_order="asc", limit=1, offset=1) == ["alice/two"]
    assert names(owner="bob") == ["bob/three"]
    assert names(mine_only="true") == ["alice/two", "alice/one"]
    assert names(search="two") == ["alice/two"]
    assert names(visibility="PRIVATE") == []
    assert names(sort_by="name", sort_order="asc") == ["alice/one", "bob/three", "alice/two"]
    refused = prime.call("get", f"{HUB}/", sort_by="owner")
    assert refused.json()["detail"].startswith("lists are sorted by name, created_at, updated_at, stars")


def test_tags_must_all_be_there() -> None:
    alice = make_user("alice")
    for name, tags in (("one", ["math"]), ("two", ["math", "code"])):
        pyproject = f'[project]\nname = "{name}"\nversion = "0.1.0"\ntags = {tags}\n'
        push_pair(alice, build_pair(name, pyproject=pyproject))
    found = PrimeClient(alice).done("get", f"{HUB}/", tags=["math", "code"])
    assert [row["name"] for row in found] == ["two"]


def test_a_public_version_has_a_wheel_to_install_and_a_private_one_its_source() -> None:
    alice = make_user("alice")
    version = create_ready_version(alice)
    prime = PrimeClient(alice)
    detail = prime.done("get", f"{HUB}/alice/tiny-env/@latest")
    assert (detail["id"], detail["visibility"], detail["semantic_version"]) == ("alice.tiny-env", "PUBLIC", "0.1.0")
    assert prime.http.get(detail["wheel_url"].removeprefix("http://testserver")).status_code in {200, 302}
    Environment.objects.update(visibility="private")
    detail = prime.done("get", f"{HUB}/alice/tiny-env/@{version.content_digest[:12]}")
    assert (detail["visibility"], detail["wheel_url"]) == ("PRIVATE", None)
    assert detail["package_url"].endswith(f"/prime/api/v1/{HUB}/alice/tiny-env/@0.1.0/source")
    assert PrimeClient(make_user("bob")).call("get", f"{HUB}/alice/tiny-env/@latest").status_code == 404


def test_status_versions_and_files_are_shown() -> None:
    alice = make_user("alice")
    push_pair(alice, build_pair(files={"data/rows.txt": "x" * 50}))
    push_pair(alice, build_pair(version="0.2.0"))
    prime = PrimeClient(alice)
    assert prime.done("get", f"{HUB}/alice/tiny-env/status")["latest_version"]["semantic_version"] == "0.2.0"
    assert [row["version"] for row in prime.done("get", f"{HUB}/alice/tiny-env/versions")] == ["0.2.0", "0.1.0"]
    place = f"{HUB}/alice/tiny-env/@0.1.0/inspect"
    top = {entry["path"]: entry["is_directory"] for entry in prime.done("get", place)["entries"]}
    assert (top["data"], top["tiny_env.py"]) == (True, False)
    assert [entry["path"] for entry in prime.done("get", place, path="data/")["entries"]] == ["data/rows.txt"]
    file = prime.done("get", place, path="data/rows.txt", max_bytes=10)
    assert (file["content"], file["truncated"], file["total_bytes"]) == ("x" * 10, True, 50)
    assert prime.call("get", place, path="nothing").status_code == 404


def test_a_version_is_deleted_by_its_hash_and_an_environment_by_name_or_id() -> None:
    alice = make_user("alice")
    push_pair(alice, build_pair())
    first = Version.objects.get()
    push_pair(alice, build_pair(version="0.2.0"))
    push_pair(alice, build_pair("other"))
    prime = PrimeClient(alice)
    prime.done("delete", f"{HUB}/alice/tiny-env/@{first.content_digest}")
    assert [row.version for row in Version.objects.filter(environment__name="tiny-env")] == ["0.2.0"]
    prime.done("delete", f"{HUB}/alice/tiny-env")
    prime.done("delete", f"{HUB}/alice.other")
    assert not Environment.objects.exists()
    assert prime.call("delete", f"{HUB}/alice/other").status_code == 404


def test_a_fork_is_the_callers_or_a_teams() -> None:
    alice, bob = make_user("alice"), make_user("bob")
    create_ready_version(alice)
    make_owner("lab", members=[bob])
    prime = PrimeClient(bob)
    assert prime.done("post", f"{HUB}/alice/tiny-env/fork")["slug"] == "bob/tiny-env"
    assert prime.done("post", f"{HUB}/alice/tiny-env/fork", {"team_slug": "lab"})["slug"] == "lab/tiny-env"


def test_what_there_is_not_says_where_it_is() -> None:
    prime = PrimeClient(make_user("alice"))
    for path, word in (
        ("images/a/1/vm-build", "prime sandbox create"),
        ("environmentshub/alice.x/secrets", "prime secret create"),
        ("availability/gpus", "rents out no hardware"),
        ("pods/status", "rents out no hardware"),
        ("training/volumes", "upload what a sandbox needs"),
        ("rft/external-runs", "prime eval push"),
        ("traces/abc", "prime eval samples"),
        ("sandbox/nope", "nope is no id of this hub; `prime sandbox list`"),
        ("odd", "/docs/migrating"),
    ):
        refused = prime.call("get", path)
        assert refused.status_code == 404
        assert word in refused.json()["detail"]
    assert prime.call("get", "tunnel").status_code == 400  # a 404 would be shown as an empty list
    assert prime.call("get", "traces").json()["error"]["code"] == "service_not_enabled"
