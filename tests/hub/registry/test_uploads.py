"""Environments that are uploaded in the browser: what is read of the files, and that they end as pushes do."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from envhub.packaging.archives.reading import safe_members, unpack
from envhub.packaging.build import build_package
from envhub.packaging.project import read_project
from envhub.protocol.placing.abilities import PACK_SOURCE
from envhub.protocol.registry.builds import SourcePacked
from envhub.protocol.runs import RunState

from hub.accounts.models import User
from hub.registry.models import SourceUpload, Version
from hub.registry.services import publish_source, uploads
from hub.runs.kinds import spec_of
from hub.runs.models import Run
from hub.runs.services.finishing import end_attempt
from hub.storage.queries import local_or_temp_path
from hub.storage.services import store_bytes
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import Pair, build_pair, push_pair
from tests.factories.runs import hold_run
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
PYPROJECT = '[project]\nname = "Tiny_Env"\nversion = "0.1.0"\nrequires-python = ">=3.11"\n'


@pytest.fixture
def grace() -> User:
    return make_user("grace")


@pytest.fixture
def browser(grace: User, client: Client) -> Client:
    client.force_login(grace)
    return client


def zipped(files: Mapping[str, str], comment: bytes = b"") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.comment = comment
        for path, text in files.items():
            archive.writestr(path, text)
    return packed.getvalue()


def send(browser: Client, *files: tuple[str, bytes], **fields: str) -> tuple[int, str]:
    """The status and where it leads, or the page."""
    given = [SimpleUploadedFile(name, content) for name, content in files]
    reply = browser.post("/environments/new", {"files": given, "owner": "grace", **fields})
    return reply.status_code, reply["Location"] if reply.status_code == 302 else reply.content.decode()


def packed(pair: Pair, version: str = "0.1.0") -> SourcePacked:
    request = pair.request()
    return SourcePacked(version=version, wheel=request.wheel, sdist=request.sdist)


def test_a_folder_as_code_hosts_pack_it_becomes_a_run_that_builds_it(browser: Client) -> None:
    files = {
        "tiny-main/pyproject.toml": PYPROJECT,
        "tiny-main/lib/pyproject.toml": "x",
        "__MACOSX/tiny-main/._x": "junk",
    }
    status, location = send(browser, ("tiny-main.zip", zipped(files, comment=b"a commit's hash")))
    upload = SourceUpload.objects.select_related("run").get()
    assert (status, location) == (302, f"/runs/{upload.run_id}?onward=1")
    payload = spec_of("build").payload(upload.run).model_dump()
    assert (payload["folder"], payload["name"], payload["requires_python"]) == ("tiny-main", "tiny-env", ">=3.11")
    assert upload.run.ability == PACK_SOURCE


def test_a_folder_without_a_folder_around_it_does_as_well(browser: Client) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        member = tarfile.TarInfo("./pyproject.toml")
        member.size = len(PYPROJECT)
        archive.addfile(member, io.BytesIO(PYPROJECT.encode()))
    assert send(browser, ("x.tgz", raw.getvalue()))[0] == 302
    assert SourceUpload.objects.get().folder == ""


REFUSED = {
    "no archive": ("x.zip", b"hello", "x.zip cannot be read"),
    "another format": ("x.7z", b"hello", "not an archive that the hub can read"),
    "no project": ("x.zip", zipped({"a/b.txt": "x"}), "no pyproject.toml at its top"),
    "two projects": ("x.zip", zipped({"a/pyproject.toml": "", "b/pyproject.toml": ""}), "several projects: a, b"),
    "a path that leaves": ("x.zip", zipped({"../pyproject.toml": PYPROJECT}), "leaves its folder"),
    "no name": ("x.zip", zipped({"pyproject.toml": "[project]\n"}), "no [project] name"),
    "nothing": ("x.zip", b"", "cannot be read"),
    "no TOML": ("x.zip", zipped({"pyproject.toml": "["}), "not valid TOML"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_environment_is_refused_with_words(browser: Client, what: str) -> None:
    name, content, said = REFUSED[what]
    status, html = send(browser, (name, content))
    assert status == 422
    assert said in html.lower() or said in html
    assert not Run.objects.exists()


def test_too_large_a_file_is_refused(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"max_push_mb": 1}))
    status, html = send(browser, ("x.zip", b"x" * 1_500_000))
    assert (status, "more than the allowed 1" in html) == (413, True)


def test_a_wheel_alone_becomes_a_private_version_and_once_more_changes_nothing(browser: Client) -> None:
    pair = build_pair()
    status, location = send(browser, (pair.wheel_filename, pair.wheel))
    assert (status, location) == (302, "/environments/grace/tiny-env/versions/0.1.0")
    version = Version.objects.get()
    assert (version.environment.visibility, version.sdist_filename) == ("private", "tiny_env-0.1.0.tar.gz")
    assert {"tiny_env.py", "pyproject.toml"} <= {path for path, _ in version.files}
    send(browser, (pair.wheel_filename, pair.wheel))
    assert "nothing has changed" in browser.get(location).content.decode()
    assert Run.objects.count() == 1


def test_the_source_that_a_wheel_gets_builds_the_same_package(browser: Client, tmp_path: Path) -> None:
    files = {"rules/__init__.py": "", "rules/texts/rows.json": "[]", "data.txt": "no module"}
    pair = build_pair(files=files, requires=["verifiers>=0.1.8", "lib @ git+https://example.org/x"])
    send(browser, (pair.wheel_filename, pair.wheel))
    with local_or_temp_path(Version.objects.get().sdist_id) as sdist:
        unpack(sdist, tmp_path / "source")
    built = build_package(read_project(tmp_path / "source" / "tiny_env-0.1.0"), tmp_path / "out")
    members = {member.path for member in safe_members(built.wheel) if ".dist-info" not in member.path}
    assert members == {"tiny_env.py", *files}
    found = built.metadata
    assert (found.summary, found.readme, found.requires_python) == ("A small environment.", "# Hello", ">=3.11")
    assert set(found.dependencies) == {"verifiers>=0.1.8", "lib @ git+https://example.org/x"}


def test_a_wheel_that_was_pushed_with_its_own_sdist_is_the_same_version_without_it(
    browser: Client, grace: User
) -> None:
    pair = build_pair()
    push_pair(grace, pair)
    status, location = send(browser, (pair.wheel_filename, pair.wheel))
    assert (status, location) == (302, "/environments/grace/tiny-env/versions/0.1.0")
    assert "nothing has changed" in browser.get(location).content.decode()
    other = build_pair(files={"new.txt": "new"})
    assert send(browser, (other.wheel_filename, other.wheel))[0] == 409
    assert Version.objects.count() == 1


def test_other_content_of_a_version_is_refused(browser: Client, grace: User) -> None:
    push_pair(grace, build_pair())
    pair = build_pair(source="def load_environment():\n    return None\n")
    status, html = send(browser, (pair.wheel_filename, pair.wheel), (pair.sdist_filename, pair.sdist))
    assert (status, "already exists with other content" in html) == (409, True)


def test_nobody_uploads_for_owners_that_are_not_theirs(browser: Client) -> None:
    make_owner("others")
    pair = build_pair()
    assert send(browser, (pair.wheel_filename, pair.wheel), owner="others")[0] == 404


def test_what_a_worker_makes_of_a_folder_is_pushed_for_who_uploaded_it(browser: Client, grace: User) -> None:
    send(browser, ("x.zip", zipped({"pyproject.toml": PYPROJECT})), visibility="public")
    run, pair = Run.objects.get(), build_pair()
    for data in (pair.wheel, pair.sdist):
        store_bytes(data, holder=grace.owner.pk)
    token = hold_run(run, state=RunState.RUNNING)
    body = packed(pair).model_dump(mode="json")
    replies = [call(token, "post", f"runs/{run.pk}/packed", body).json() for _ in range(2)]
    assert [(one["owner"], one["name"], one["created_by"]) for one in replies] == [("grace", "tiny-env", "grace")] * 2
    run.refresh_from_db()
    assert run.subject_url == "/environments/grace/tiny-env/versions/0.1.0"
    end_attempt(run=run, to=RunState.SUCCEEDED, now=timezone.now())
    assert SourceUpload.objects.get().archive is None
    assert Version.objects.get().environment.is_public
    page = browser.get(f"/runs/{run.pk}?onward=1")
    assert page["Location"] == run.subject_url


def test_a_worker_makes_no_other_package_of_it_than_was_uploaded(browser: Client, grace: User) -> None:
    send(browser, ("x.zip", zipped({"pyproject.toml": PYPROJECT})))
    pair = build_pair("other-env")
    token = hold_run(Run.objects.get(), state=RunState.RUNNING)
    reply = call(token, "post", f"runs/{Run.objects.get().pk}/packed", packed(pair).model_dump(mode="json"))
    assert reply.json()["error"]["code"] == "name_mismatch"


def test_a_hub_that_dies_while_it_is_pushed_leaves_no_version_for_the_next_attempt_to_meet(
    browser: Client, grace: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(browser, ("x.zip", zipped({"pyproject.toml": PYPROJECT})))
    run = Run.objects.get()

    def push(source: str) -> None:
        pair = build_pair(source=source)
        for data in (pair.wheel, pair.sdist):
            store_bytes(data, holder=grace.owner.pk)
        publish_source(run=run, packed=packed(pair))

    with monkeypatch.context() as dying:
        dying.setattr(uploads, "_page_of", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            push("def load_environment():\n    return 1\n")
    push("def load_environment():\n    return 2\n")  # as of a backend that writes down when it built
    assert SourceUpload.objects.get().version == Version.objects.get()
