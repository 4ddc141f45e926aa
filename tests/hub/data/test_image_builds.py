"""Images built by workers: queued by administrators, told to the run's worker, kept once it reports them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from envhub.protocol.accounts.users import Scope
from envhub.protocol.runs import RunKind
from envhub.protocol.sandboxes.images import ImageBuildRequest, ImageBuilt

from hub.core.errors import Invalid, NotFound
from hub.data.image_builds import image_build_payload, keep_built_image, queue_image_build
from hub.data.images import place_of, source_of
from hub.data.models import ImageBuild
from tests.factories.accounts import make_token, make_user
from tests.factories.runs import hold_run, make_run
from tests.factories.storage import make_blob

pytestmark = pytest.mark.django_db


def queued(name: str = "team/tools:1") -> ImageBuild:
    user = make_user()
    place, context = place_of(name=name, user=user), make_blob()
    request = ImageBuildRequest(name=name, sha256=context.sha256, size=context.size, arguments={"A": "1"})
    return queue_image_build(place=place, request=request, by=user)


def test_what_its_worker_reports_is_what_the_name_means() -> None:
    row = queued("docker.io/team/tools:1")
    payload = image_build_payload(row.run)
    assert (payload.name, payload.dockerfile, payload.arguments) == ("team/tools:1", "Dockerfile", {"A": "1"})
    assert payload.context.url
    assert (row.run.kind, row.run.queue) == ("image", "build")
    archive = make_blob()
    image = keep_built_image(run=row.run, built=ImageBuilt(sha256=archive.sha256, size=archive.size))
    source = source_of("team/tools:1", row.run)
    assert (source.layout, source.digest) == ("docker", f"sha256:{archive.sha256}")
    assert (image.added_by, image.owner) == (row.run.created_by, row.run.owner)


@pytest.mark.parametrize("name", ["a b", "x@sha256:" + "1" * 64])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        queued(name)


def test_other_runs_build_no_image() -> None:
    blob = make_blob()
    with pytest.raises(NotFound):
        keep_built_image(run=make_run(), built=ImageBuilt(sha256=blob.sha256, size=blob.size))


def test_over_rest(client: Client) -> None:
    def post(path: str, token: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        return client.post(f"/api/v1/images/{path}", body, content_type="application/json", headers=headers)

    context, archive = make_blob(), make_blob()
    body = {"name": "made", "sha256": context.sha256, "size": context.size}
    user = make_user("maker")
    token = make_token(user, Scope.READ, Scope.WRITE)
    assert post("builds", make_token(user, Scope.READ), body).status_code == 403
    assert post("builds", token, body | {"everybody": True}).status_code == 403
    begun = post("builds", token, body)
    assert (begun.status_code, begun.json()["name"]) == (201, "hub/maker/made:latest")
    row = ImageBuild.objects.get(run_id=begun.json()["run_id"])
    built = {"sha256": archive.sha256, "size": archive.size}
    assert post("built", token, built).status_code == 401
    assert post("built", hold_run(make_run(kind=RunKind.BUILD)), built).status_code == 404
    assert post("built", hold_run(row.run), built).json()["layout"] == "docker"
