"""Who may call the routes of Prime's clients, as tests.hub.api.rights has them for all others."""

from __future__ import annotations

from typing import Any

from hub.compat.models import BegunImage, BegunPush
from hub.training.models import Adapter, Checkpoint
from tests.factories.storage import make_blob
from tests.hub.api.access import Access
from tests.hub.api.world import MARK, World

_API = "prime/api/v1"
_HUB = f"{_API}/environmentshub"
_ID = f"{_HUB}/<environment:environment>"
_NAMED = f"{_HUB}/<str:owner>/<str:name>"
_VERSION = f"{_NAMED}/@<str:version>"
_EVALUATION = "evaluations/<id:evaluation_id>"
_RUN = f"{_API}/rft/runs/<id:training_id>"
_ADAPTER = f"{_API}/rft/adapters/<slug:owner>/<str:model>"
_SANDBOX = f"{_API}/sandbox/<id:sandbox_id>"
_LOGS = ("logs", "env-servers", "env-server-logs")
_RUN_PARTS = (*_LOGS, "metrics", "samples", "progress", "distributions", "checkpoints")

RIGHTS: dict[str, dict[str, Access]] = {
    f"{_API}/auth_challenge/generate": {"post": Access.OPEN},
    f"{_API}/auth_challenge/status": {"get": Access.OPEN},
    f"{_API}/user/whoami": {"get": Access.SIGNED_IN},
    f"{_API}/user/slug": {"patch": Access.SIGNED_IN},
    f"{_API}/user/teams": {"get": Access.SIGNED_IN},
    f"{_API}/teams/<slug:team>/members": {"get": Access.PRIVATE},
    f"{_HUB}/": {"get": Access.OPEN},
    f"{_HUB}/resolve": {"post": Access.SIGNED_IN},
    f"{_HUB}/lookup": {"post": Access.PRIVATE},
    _ID: {"delete": Access.PRIVATE},
    f"{_ID}/wheels": {"post": Access.PRIVATE},
    f"{_ID}/wheels/<uuid:wheel_id>/finalize": {"post": Access.PRIVATE},
    f"{_ID}/versions": {"post": Access.PRIVATE},
    f"{_ID}/versions/<uuid:version_id>/finalize": {"post": Access.PRIVATE},
    _NAMED: {"delete": Access.PRIVATE},
    f"{_NAMED}/status": {"get": Access.PRIVATE},
    f"{_NAMED}/versions": {"get": Access.PRIVATE},
    f"{_NAMED}/fork": {"post": Access.PRIVATE},
    _VERSION: {"get": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_VERSION}/source": {"get": Access.PRIVATE},
    f"{_VERSION}/inspect": {"get": Access.PRIVATE},
    f"{_API}/evaluations/": {"get": Access.SIGNED_IN, "post": Access.PRIVATE},
    f"{_API}/{_EVALUATION}": {"get": Access.PRIVATE, "put": Access.PRIVATE},
    f"{_API}/{_EVALUATION}/samples": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_API}/{_EVALUATION}/finalize": {"post": Access.PRIVATE},
    f"{_API}/hosted-evaluations": {"post": Access.PRIVATE},
    f"{_API}/hosted-{_EVALUATION}/logs": {"get": Access.PRIVATE},
    f"{_API}/hosted-{_EVALUATION}/cancel": {"patch": Access.PRIVATE},
    f"{_API}/traces": {"get": Access.OPEN, "post": Access.OPEN},
    f"{_API}/rft/models": {"get": Access.SIGNED_IN},
    f"{_API}/rft/runs": {"get": Access.SIGNED_IN, "post": Access.PRIVATE},
    _RUN: {"get": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_RUN}/stop": {"put": Access.PRIVATE},
    f"{_RUN}/restart": {"put": Access.PRIVATE},
    **{f"{_RUN}/{part}": {"get": Access.PRIVATE} for part in _RUN_PARTS},
    f"{_API}/rft/adapters": {"get": Access.SIGNED_IN},
    _ADAPTER: {"get": Access.PRIVATE},
    f"{_ADAPTER}/deploy": {"post": Access.PRIVATE},
    f"{_ADAPTER}/unload": {"post": Access.PRIVATE},
    f"{_API}/rft/checkpoints/<id:checkpoint_id>/deploy": {"post": Access.PRIVATE},
    f"{_API}/rft/deployable-models": {"get": Access.SIGNED_IN},
    f"{_API}/sandbox": {"get": Access.SIGNED_IN, "post": Access.SIGNED_IN, "delete": Access.SIGNED_IN},
    f"{_API}/sandbox/status:batchGet": {"post": Access.SIGNED_IN},
    _SANDBOX: {"get": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_SANDBOX}/auth": {"post": Access.PRIVATE},
    f"{_SANDBOX}/logs": {"get": Access.PRIVATE},
    f"{_SANDBOX}/error-context": {"get": Access.PRIVATE},
    f"{_SANDBOX}/egress-policy": {"get": Access.PRIVATE},
    f"{_API}/sandbox/expose/all": {"get": Access.SIGNED_IN},
    f"{_SANDBOX}/expose": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_SANDBOX}/expose/<id:port_id>": {"delete": Access.PRIVATE},
    f"{_API}/images": {"get": Access.SIGNED_IN, "patch": Access.SIGNED_IN},
    f"{_API}/images/build": {"post": Access.SIGNED_IN},
    f"{_API}/images/build/<uuid:build_id>": {"get": Access.PRIVATE},
    f"{_API}/images/build/<uuid:build_id>/start": {"post": Access.PRIVATE},
    rf"{_API}/(?P<rest>images/.+/vm-build)": dict.fromkeys(("get", "post", "put", "patch", "delete"), Access.OPEN),
    f"{_API}/images/<path:image>/<str:tag>": {"delete": Access.PRIVATE},
    f"{_API}/secrets/": {"get": Access.SIGNED_IN, "post": Access.SIGNED_IN},
    f"{_API}/secrets/<str:secret_id>": dict.fromkeys(("get", "patch", "delete"), Access.PRIVATE),
    f"{_ID}/<path:rest>": dict.fromkeys(("get", "post", "put", "patch", "delete"), Access.OPEN),
    f"{_API}/<path:rest>": dict.fromkeys(("get", "post", "put", "patch", "delete"), Access.OPEN),
    "prime/uploads/<str:grant>": {"put": Access.OPEN},  # the address is signed
    "prime/image-contexts/<str:grant>": {"put": Access.OPEN},  # likewise
    "prime/dashboard/tokens/challenge": {"get": Access.OPEN},
    "prime/dashboard/environments/<str:owner>/<str:name>": {"get": Access.OPEN},
    f"prime/dashboard/{_EVALUATION}": {"get": Access.OPEN},
    "prime/dashboard/training/<id:training_id>": {"get": Access.OPEN},
}


def kwargs_of(world: World) -> dict[str, Any]:
    """What the arguments of these routes alone are."""
    push, _ = BegunPush.objects.get_or_create(
        owner=world.alice.owner,
        name=f"{MARK}-env",
        content_hash="a" * 64,
        defaults={
            "wheel_filename": f"{MARK}_env-0.1.0-py3-none-any.whl",
            "wheel_sha256": "a" * 64,
            "wheel_size": 1,
            "source_sha256": "b" * 64,
            "created_by": world.alice,
        },
    )
    blob, image = make_blob(b"a folder"), world.image
    context = {"context_sha256": blob.sha256, "context_size": blob.size, "dockerfile": "x", "created_by": world.alice}
    build, _ = BegunImage.objects.get_or_create(owner=image.owner, name=image.name, run=None, defaults=context)
    made, _ = Adapter.objects.get_or_create(
        training=world.training, step=1, defaults={"model": world.deployment.model, "mode": "lora", "base_name": "x"}
    )
    checkpoint, _ = Checkpoint.objects.get_or_create(training=world.training, step=1)
    known: dict[str, Any] = {"model": made.model.name, "checkpoint_id": checkpoint.pk}
    known |= {"build_id": build.pk, "image": f"prime/alice/{MARK}-image", "tag": "1"}
    known |= {"environment": f"alice.{MARK}-env", "secret_id": f"alice.{MARK.upper()}_KEY", "grant": "x", "rest": "x"}
    return {**known, "wheel_id": push.pk, "version_id": push.pk}


def bodies_of(world: World) -> dict[tuple[str, str], dict[str, Any]]:
    """Bodies that get a call as far as the object."""
    wheel = {"content_hash": "a" * 64, "filename": world.version.wheel_filename, "sha256": "a" * 64, "size": 1}
    return {
        (f"{_HUB}/resolve", "post"): {"name": "x"},
        (f"{_HUB}/lookup", "post"): {"id": f"alice.{MARK}-env"},
        (f"{_ID}/wheels", "post"): wheel,
        (f"{_ID}/versions", "post"): wheel,
        (f"{_API}/evaluations/", "post"): {
            "name": "x",
            "model_name": "gpt-x",
            "environments": [{"id": f"alice.{MARK}-env"}],
        },
        (f"{_API}/{_EVALUATION}/samples", "post"): {"samples": []},
        (f"{_API}/hosted-evaluations", "post"): {
            "environment_ids": [f"alice.{MARK}-env"],
            "inference_model": "alice/stub",
            "eval_config": {"num_examples": 1, "rollouts_per_example": 1},
        },
        (f"{_API}/rft/runs", "post"): {
            "model": {"name": "alice/base"},
            "environments": [{"id": f"alice/{MARK}-env"}],
            "secrets": [],
        },
        (f"{_API}/sandbox", "post"): {"docker_image": "hub/base"},
        (f"{_API}/sandbox", "delete"): {"labels": ["x"]},
        (f"{_API}/sandbox/status:batchGet", "post"): {"sandbox_ids": ["x"]},
        (f"{_SANDBOX}/expose", "post"): {"port": 8000},
        (f"{_API}/images", "patch"): {"updates": []},
        (f"{_API}/images/build", "post"): {"image_name": "x"},
        (f"{_API}/secrets/", "post"): {"name": "OTHER_KEY", "value": "x"},
        (f"{_API}/secrets/<str:secret_id>", "patch"): {"value": "y"},
    }
