"""What the checks of a version read is noted, so that its bundle holds it; what others read is not the version's."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.registry.needs import NeedKind

from hub.bundles.services.contents import snapshot_part
from hub.data.models import Snapshot, SnapshotFile
from hub.data.services import keep_listed
from hub.registry.models import Version, VersionUse
from hub.runs.models import Run
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.runs import hold_run, make_run
from tests.factories.storage import make_blob
from tests.hub.bundles.conftest import DATA, IMAGE, WORDS

pytestmark = pytest.mark.django_db
ROWS = f"/hf/datasets/{DATA}/resolve/main/train.jsonl"


def uses() -> set[tuple[str, str]]:
    return set(VersionUse.objects.values_list("kind", "name"))


def read_all(client: Client, token: str) -> list[int]:
    calls = (ROWS, f"/outside?url={WORDS}", f"/api/v1/images/source?name={IMAGE}")
    return [client.get(path, headers=bearer(token)).status_code for path in calls]


def test_what_a_build_reads_is_its_versions(version: Version, client: Client) -> None:
    VersionUse.objects.all().delete()
    token = hold_run(Run.objects.get(pk=version.build_run_id))
    assert read_all(client, token) == [302, 302, 200]
    assert uses() == {("data_set", DATA), ("file", WORDS), ("sandbox", IMAGE)}
    assert VersionUse.objects.get(kind=NeedKind.DATA_SET.value).revision == Snapshot.objects.get().revision


def test_what_evaluations_and_users_read_is_not(version: Version, client: Client) -> None:
    VersionUse.objects.all().delete()
    assert read_all(client, hold_run(make_run(owner=version.environment.owner))) == [302, 302, 200]
    assert client.get(ROWS, headers=bearer(make_token(make_user("bob")))).status_code == 302
    assert uses() == set()


def test_of_a_data_set_read_through_all_is_listed_and_the_bytes_that_are_here_travel(db: None) -> None:
    blob = make_blob()
    row = Snapshot.objects.create(kind="dataset", repository="a/b", revision="1" * 40, upstream=True, pinned=True)
    files = [SnapshotFile(snapshot=row, path="here", size=blob.size, oid=blob.pk, blob=blob)]
    files += [SnapshotFile(snapshot=row, path="there", size=5, oid="2" * 40)]
    SnapshotFile.objects.bulk_create(files)
    part = snapshot_part(row)
    assert [(file.path, file.sha256) for file in part.files] == [("here", blob.pk), ("there", None)]
    row.delete()
    kept = keep_listed(part=part, holder=make_user().owner.pk)
    assert kept.upstream
    listed = list(kept.files.values_list("path", "oid", "blob_id"))
    assert listed == [("here", blob.pk, blob.pk), ("there", "2" * 40, None)]


def test_bytes_that_come_later_complete_what_is_listed(db: None) -> None:
    blob, holder = make_blob(), make_user().owner.pk
    row = Snapshot.objects.create(kind="dataset", repository="a/b", revision="1" * 40, upstream=True)
    file = SnapshotFile.objects.create(snapshot=row, path="x", size=blob.size, oid="2" * 40)
    told = snapshot_part(row)
    file.blob = blob
    file.save()
    fuller = snapshot_part(row)
    row.delete()
    keep_listed(part=told, holder=holder)
    assert keep_listed(part=fuller, holder=holder).files.get().blob == blob
