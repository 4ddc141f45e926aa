"""`hub data ...` against the real API: data sets, also by their revision, and single files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from envhub.protocol.accounts.users import Scope

from hub.data.models import OutsideFile
from hub.data.services import resolve
from tests.envhub.cli.conftest import Cli, MakeCli
from tests.factories.accounts import make_token, make_user

pytestmark = pytest.mark.django_db
URL = "https://raw.githubusercontent.com/someone/words/main/words.txt"


@pytest.fixture
def hub(make_cli: MakeCli) -> Cli:
    cli = make_cli(make_user("root-user", is_superuser=True))
    cli.environ["HUB_TOKEN"] = make_token(cli.user, Scope.READ, Scope.WRITE, Scope.ADMIN)
    return cli


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("one\ntwo\n")
    return path


def test_a_file_is_added_listed_and_deleted(hub: Cli, words: Path) -> None:
    assert hub("data", "add", URL, str(words), "--kind", "file").stdout == f"{URL}: 8 bytes, at {URL}\n"
    assert [(item["kind"], item["name"], item["added_by"]) for item in hub.json("data", "list")] == [
        ("file", URL, "root-user")
    ]
    assert "added" in hub("data", "list").stdout
    hub("data", "delete", URL, "--kind", "file", "--yes")
    assert hub.json("data", "list") == []


def test_a_package_of_nltk_lies_where_ones_own_nltk_data_has_it(hub: Cli, tmp_path: Path) -> None:
    path = tmp_path / "nltk_data/taggers/mine.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mine/x", "y")
    said = hub.json("data", "add", "mine", str(path), "--kind", "nltk")
    assert (said["name"], said["url"].rpartition("/packages/")[2]) == ("mine", "taggers/mine.zip")


def test_what_is_no_file_or_no_directory_is_told(hub: Cli, words: Path, tmp_path: Path) -> None:
    assert "--kind file, nltk, tiktoken or spacy" in hub("data", "add", "a/b", str(words), code=2).output
    assert "is no file" in hub("data", "add", URL, str(tmp_path), "--kind", "file", code=2).output
    assert "not a name of tiktoken" in hub("data", "add", "a b", str(words), "--kind", "tiktoken", code=1).output
    assert not OutsideFile.objects.exists()


def test_a_snapshot_of_the_hugging_face_cache_is_links_to_files(hub: Cli, tmp_path: Path) -> None:
    blob, snapshot = tmp_path / "datasets--o--rows/blobs/0123", tmp_path / "datasets--o--rows/snapshots/abc"
    for path in (blob, snapshot / "data/train.jsonl"):
        path.parent.mkdir(parents=True)
    blob.write_text(json.dumps({"n": 1}))
    (snapshot / "data/train.jsonl").symlink_to("../../../blobs/0123")
    hub("data", "add", "o/rows", str(snapshot))
    stored = resolve(kind="dataset", repository="o/rows", revision="main")
    assert list(stored.files.values_list("path", "size")) == [("data/train.jsonl", 8)]


def test_a_link_to_a_folder_is_refused_by_name(hub: Cli, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "train.jsonl").write_text("{}")
    (rows / "again").symlink_to(".")
    assert f"{rows / 'again'} is a link to a folder" in hub("data", "add", "o/rows", str(rows), code=2).stderr


def test_a_revision_that_packages_pin_is_found_beside_what_main_means(hub: Cli, tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "train.jsonl").write_text(json.dumps({"n": 1}))
    hub("data", "add", "o/rows", str(rows))
    main = resolve(kind="dataset", repository="o/rows", revision="main")
    (rows / "train.jsonl").write_text(json.dumps({"n": 2}))
    assert hub.json("data", "add", "o/rows", str(rows), "--revision", commit)["revision"] == commit
    hub("data", "add", "o/rows", str(rows), "--revision", "v1.0")
    assert resolve(kind="dataset", repository="o/rows", revision="main") == main
    pinned = {
        revision: str(resolve(kind="dataset", repository="rows", revision=revision).revision)
        for revision in (commit, commit[:8], "v1.0")
    }
    assert (pinned[commit], pinned[commit[:8]]) == (commit, commit)
    assert pinned["v1.0"] not in {commit, main.revision}
    (rows / "train.jsonl").write_text(json.dumps({"n": 3}))
    assert "other files" in hub("data", "add", "o/rows", str(rows), "--revision", commit, code=1).output
