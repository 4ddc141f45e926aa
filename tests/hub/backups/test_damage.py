"""What somebody did to the files of a backup is found, and the file is named, before a row or a byte counts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hub.accounts.models import User
from hub.backups.errors import Damaged
from hub.core.errors import NotFound
from tests.factories.accounts import make_user
from tests.hub.backups.site import Site, keep_blob

pytestmark = pytest.mark.django_db(transaction=True)
Spoil = Callable[[Site, str], None]


def change(site: Site, path: str) -> None:
    content = bytearray(site.content(path))
    content[len(content) // 2] ^= 1
    site.put(path, bytes(content))


def cut(site: Site, path: str) -> None:
    site.put(path, site.content(path)[:-40])


def empty(site: Site, path: str) -> None:
    site.put(path, b"")


def lose(site: Site, path: str) -> None:
    site.destination.delete(path)


def swap(site: Site, path: str) -> None:
    """Another file that the hub has sealed."""
    other = max(found for found in site.files("objects") if found != path)
    site.put(path, site.content(other))


@pytest.fixture
def backed_up(site: Site) -> Site:
    make_user("alice")
    for _ in range(3):
        keep_blob()
    site.back_up()
    return site


@pytest.mark.parametrize("spoil", [change, cut, empty, lose, swap])
def test_a_spoilt_blob_is_named_by_verifying_and_by_restoring(backed_up: Site, spoil: Spoil) -> None:
    site, path = backed_up, backed_up.one_blob()
    spoil(site, path)
    assert [line.partition(": ")[0] for line in site.verify()] == [path]
    assert [line.partition(": ")[0] for line in site.verify(decrypt=True)] == [path]
    site.wipe()
    with pytest.raises(Damaged, match=path):
        site.restore()
    assert not User.objects.exists()


@pytest.mark.parametrize("spoil", [change, cut, empty, lose, swap])
def test_all_but_the_damaged_blobs_is_restored_if_that_is_asked_for(backed_up: Site, spoil: Spoil) -> None:
    site, path = backed_up, backed_up.one_blob()
    spoil(site, path)
    blobs = {found.sha256 for found in site.store.every()}
    site.wipe()
    with pytest.raises(Damaged) as caught:
        site.restore()
    assert caught.value.hint.endswith("--skip-damaged")
    site.restore(skip_damaged=True)
    assert User.objects.filter(username="alice").exists()
    (gone,) = blobs - {found.sha256 for found in site.store.every()}
    (told,) = [line for line in site.said if line.startswith("LEFT OUT")]
    assert path in told
    assert gone in told
    assert site.said[-1] == path


def test_a_damaged_blob_whose_file_is_deleted_is_called_lost_by_the_next_backup(backed_up: Site) -> None:
    site, path = backed_up, backed_up.one_blob()
    change(site, path)
    site.wipe()
    site.restore(skip_damaged=True)
    site.destination.delete(site.said[-1])
    made = site.back_up()
    assert [name for name in made.lost if path.endswith(name)]
    assert site.verify() == []


def change_header(site: Site, path: str) -> None:
    """The part of age's header that says who can open the file."""
    content = bytearray(site.content(path))
    start = content.index(b"-> X25519 ") + 60
    content[start : start + 20] = bytes(content[start : start + 20]).swapcase()
    site.put(path, bytes(content))


def test_a_damaged_header_is_damage_though_the_seals_cannot_tell(backed_up: Site) -> None:
    site, path = backed_up, backed_up.one_blob()
    change_header(site, path)
    site.wipe()
    with pytest.raises(Damaged, match=f"{path}: no identity can open it"):
        site.restore(lost_keys=True)
    site.restore(lost_keys=True, skip_damaged=True)
    assert site.said[-1] == path


def test_where_a_large_blob_is_damaged_is_told(site: Site) -> None:
    make_user("alice")
    blob = keep_blob(b"x" * 1_000_000)
    site.back_up()
    change(site, site.one_blob())
    (problem,) = site.verify(decrypt=True)
    found = re.search(rf"\(blob {blob.sha256}, of which the first (\d+) bytes decrypt\)$", problem)
    assert found
    assert 400_000 < int(found[1]) <= 500_000


@pytest.mark.parametrize("file", ["manifest", "database", "blobs"])
@pytest.mark.parametrize("spoil", [change, cut, lose])
def test_another_spoilt_file_is_named(backed_up: Site, spoil: Spoil, file: str) -> None:
    site = backed_up
    (path,) = (path for path in site.files("backups") if path.endswith(file))
    spoil(site, path)
    expected, says = (NotFound, "no backups") if (spoil, file) == (lose, "manifest") else (Damaged, path)
    with pytest.raises(expected, match=says):
        site.verify()
    site.wipe()
    if file != "blobs":  # restoring goes by the database
        with pytest.raises(expected, match=says):
            site.restore()
        assert not User.objects.exists()


def test_a_backup_that_is_shown_as_another_is_found(backed_up: Site) -> None:
    site = backed_up
    first = next(iter(site.files("backups"))).split("/")[1]
    for path in list(site.files(f"backups/{first}")):
        site.put(path.replace(first, "29990101T000000.000000Z"), site.content(path))
    with pytest.raises(Damaged, match=r"29990101T000000\.000000Z/manifest"):
        site.verify()


def test_what_the_hub_has_lost_itself_is_said_and_the_rest_is_backed_up(site: Site) -> None:
    lost, rotten, _ = keep_blob(), keep_blob(), keep_blob()
    site.store.delete(lost.sha256)
    path = site.store.path(rotten.sha256)  # type: ignore[attr-defined]
    path.chmod(0o644)
    path.write_bytes(b"rotten")
    made = site.back_up()
    assert (made.added, len(made.lost)) == (1, 2)
    assert {line.split()[5] for line in site.said if "LOST" in line} == {lost.sha256, rotten.sha256}
    assert site.verify() == site.verify(decrypt=True) == []
    site.wipe()
    site.restore()
    assert {found.sha256 for found in site.store.every()}.isdisjoint({lost.sha256, rotten.sha256})
