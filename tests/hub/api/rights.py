"""Who may call each route: the data of test_every_route_as_every_role. A route without a line here fails the test.

To add a route: say its access in RIGHTS; if it takes a new URL argument, say in world.kwargs_of what that is in the
private world; if it needs a body before it looks at the object, put one in body_of. Routes of accounts are in
account_rights.py.
"""

from __future__ import annotations

from typing import Any

from hub.web.sdk_wheel import FILENAME
from tests.factories.registry import build_pair
from tests.hub.api import account_rights as account
from tests.hub.api import training_pages
from tests.hub.api import world as private
from tests.hub.api.access import Access
from tests.hub.api.world import MARK, World
from tests.hub.compat import rights as compat

_ENVIRONMENT = "api/v1/environments/<str:owner>/<str:name>"
_VERSION = f"{_ENVIRONMENT}/versions/<str:version>"
_EVALUATION = "api/v1/evaluations/<id:evaluation_id>"
_MODEL = "api/v1/models/<slug:owner>/<str:name>"
_REPOSITORY = r"(?P<repository>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)??)"
_DATA = rf"api/v1/data/(?P<kind>dataset|model)/{_REPOSITORY}"
_HF = rf"hf/api/(?P<plural>datasets|models)/{_REPOSITORY}"
_TRAINING = "api/v1/training/<id:training_id>"
_TRAINING_ROLLOUT = f"{_TRAINING}/rollouts/<int:step>/<int:index>"
_SANDBOX = "api/v1/sandboxes/<id:sandbox_id>"
_RUN = "api/v1/runs/<id:run_id>"
_ENVIRONMENT_PAGE = "environments/<str:owner>/<str:name>"
_VERSION_PAGE = f"{_ENVIRONMENT_PAGE}/versions/<str:version>"
_EVALUATION_PAGE = "evaluations/<id:evaluation_id>"
_ROLLOUT = f"{_EVALUATION}/rollouts/<int:example>/<int:rollout>"
_ROLLOUT_PAGE = f"{_EVALUATION_PAGE}/rollouts/<int:example>/<int:rollout>"
_SHARED_ROLLOUT = "shared/<str:secret>/<int:side>/rollouts/<int:example>/<int:rollout>"
_SHARED_TRAINING_ROLLOUT = "shared/<str:secret>/rollouts/<int:step>/<int:index>"
_RUN_PAGE = "runs/<id:run_id>"
_WEBHOOK = "api/v1/webhooks/<id:webhook_id>"
_WEBHOOK_PAGE = "settings/webhooks/<id:webhook_id>"
_MODEL_PAGE = "models/<slug:owner>/<str:name>"

RIGHTS: dict[str, dict[str, Access]] = {
    **account.RIGHTS,
    # api
    "api/v1/schema": {"get": Access.OPEN},
    "api/v1/docs": {"get": Access.OPEN},
    "healthz": {"get": Access.OPEN},
    "readyz": {"get": Access.OPEN},
    "metrics": {"get": Access.MONITOR},
    # pages
    "": {"get": Access.OPEN},
    "docs": {"get": Access.OPEN},
    "docs/<slug:slug>": {"get": Access.OPEN},
    "search": {"get": Access.OPEN},
    "cli": {"get": Access.OPEN},
    f"cli/{FILENAME}": {"get": Access.OPEN},
    "data": {"get": Access.SIGNED_IN},
    "administration/queue": {"get": Access.ADMINISTRATOR},
    "administration/sandboxes": {"get": Access.ADMINISTRATOR},
    "administration/storage": {"get": Access.ADMINISTRATOR},
    "administration/data": {"get": Access.ADMINISTRATOR},
    "administration/data/forget": {"post": Access.ADMINISTRATOR},
    "<slug:owner>": {"get": Access.PRIVATE},  # of alice nothing is public
    "owners/<slug:owner>": {"get": Access.OPEN},  # a redirect to the short one
    "environments": {"get": Access.OPEN},
    "environments/new": {"get": Access.SIGNED_IN, "post": Access.SIGNED_IN},
    "environments/sample": {"post": Access.SIGNED_IN},
    _ENVIRONMENT_PAGE: {"get": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/preview.png": {"get": Access.PREVIEW},
    f"{_EVALUATION_PAGE}/preview.png": {"get": Access.PREVIEW},
    "training/<id:training_id>/preview.png": {"get": Access.PREVIEW},
    f"{_ENVIRONMENT_PAGE}/archive": {"post": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/move": {"post": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/fork": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/forks": {"get": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/diff": {"get": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/settings": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/star": {"post": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/watches": {"post": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/watches/<id:watch_id>": {"post": Access.PERSONAL},
    f"{_ENVIRONMENT_PAGE}/versions": {"get": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/evaluations": {"get": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/evaluate": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    _VERSION_PAGE: {"get": Access.PRIVATE},
    f"{_VERSION_PAGE}/files": {"get": Access.PRIVATE},
    f"{_VERSION_PAGE}/rebuild": {"post": Access.PRIVATE},
    f"{_VERSION_PAGE}/yank": {"post": Access.PRIVATE},
    f"{_VERSION_PAGE}/check": {"post": Access.PRIVATE},
    "evaluations": {"get": Access.OPEN},
    "evaluations/compare": {"get": Access.OPEN},
    "evaluations/compare/example": {"get": Access.OPEN},
    _EVALUATION_PAGE: {"get": Access.PRIVATE},
    f"{_EVALUATION_PAGE}/cancel": {"post": Access.PRIVATE},
    f"{_EVALUATION_PAGE}/resume": {"post": Access.PRIVATE},
    f"{_EVALUATION_PAGE}/share": {"post": Access.PRIVATE},
    _ROLLOUT_PAGE: {"get": Access.PRIVATE},
    f"{_ROLLOUT_PAGE}/original": {"get": Access.PRIVATE},
    f"{_ROLLOUT_PAGE}/pictures/<int:number>/<int:index>": {"get": Access.PRIVATE},
    f"{_ROLLOUT_PAGE}/label": {"post": Access.PRIVATE},
    f"{_ROLLOUT_PAGE}/note": {"post": Access.PRIVATE},
    f"{_ROLLOUT_PAGE}/note/<id:note_id>": {"post": Access.PRIVATE},
    f"{_EVALUATION_PAGE}/views": {"post": Access.PRIVATE},
    f"{_EVALUATION_PAGE}/views/<id:view_id>/delete": {"post": Access.PRIVATE},
    f"{_ENVIRONMENT_PAGE}/training": {"get": Access.PRIVATE},
    f"{_MODEL_PAGE}/lineage": {"get": Access.PRIVATE},
    f"{_VERSION_PAGE}/lineage": {"get": Access.PRIVATE},
    "runs": {"get": Access.SIGNED_IN},
    _RUN_PAGE: {"get": Access.PRIVATE},
    f"{_RUN_PAGE}/log": {"get": Access.PRIVATE},
    f"{_RUN_PAGE}/cancel": {"post": Access.PRIVATE},
    f"{_RUN_PAGE}/sandboxes": {"get": Access.PRIVATE},
    f"{_RUN_PAGE}/sandboxes/<str:sandbox_id>/end": {"post": Access.PRIVATE},
    "models": {"get": Access.OPEN, "post": Access.SIGNED_IN},
    _MODEL_PAGE: {"get": Access.PRIVATE},
    f"{_MODEL_PAGE}/test": {"post": Access.PRIVATE},
    f"{_MODEL_PAGE}/deploy": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    "deployments": {"get": Access.SIGNED_IN},
    "deployments/<id:deployment_id>/end": {"post": Access.PRIVATE},
    f"{_MODEL_PAGE}/delete": {"post": Access.PRIVATE},
    "data/images/<uuid:image_id>/visibility": {"post": Access.PRIVATE},
    "data/images/<uuid:image_id>/delete": {"post": Access.PRIVATE},
    "settings/secrets": {"get": Access.SIGNED_IN, "post": Access.SIGNED_IN},
    "settings/secrets/<slug:owner>/<str:name>/delete": {"post": Access.PRIVATE},
    # storage: the second one is guarded by its signature, see tests/hub/storage
    "api/v1/blobs": {"post": Access.SIGNED_IN},
    "api/v1/blobs/(?P<sha256>[0-9a-f]{64})": {"get": Access.OPEN, "put": Access.OPEN},
    "settings/storage": {"get": Access.SIGNED_IN},
    "settings/usage": {"get": Access.SIGNED_IN},
    "api/v1/usage": {"get": Access.SIGNED_IN},
    # runs
    "api/v1/runs": {"get": Access.SIGNED_IN},
    _RUN: {"get": Access.PRIVATE},
    f"{_RUN}/log": {"get": Access.PRIVATE, "post": Access.RUN},
    f"{_RUN}/cancel": {"post": Access.PRIVATE},
    f"{_RUN}/sandboxes": {"get": Access.PRIVATE, "post": Access.RUN},
    f"{_RUN}/sandboxes/<str:sandbox_id>": {"delete": Access.PRIVATE},
    f"{_RUN}/claim": {"post": Access.WORKER},
    f"{_RUN}/start": {"post": Access.RUN},
    f"{_RUN}/heartbeat": {"post": Access.RUN},
    f"{_RUN}/finish": {"post": Access.RUN},
    "api/v1/workers": {"get": Access.ADMINISTRATOR, "post": Access.ADMINISTRATOR},
    "api/v1/workers/<id:worker_id>": dict.fromkeys(("get", "patch", "delete"), Access.ADMINISTRATOR),
    "settings/workers": {"get": Access.ADMINISTRATOR},
    "settings/workers/<id:worker_id>/drain": {"post": Access.ADMINISTRATOR},
    "settings/workers/<id:worker_id>/revoke": {"post": Access.ADMINISTRATOR},
    "api/v1/workers/join": {"post": Access.WORKER},
    "api/v1/workers/demand": {"get": Access.WORKER},
    "api/v1/workers/clusters": {"get": Access.WORKER},
    "api/v1/workers/<id:worker_id>/beat": {"post": Access.WORKER},
    # registry
    "api/v1/environments": {"get": Access.OPEN},
    "api/v1/former-names/<str:owner>/<str:name>": {"delete": Access.PRIVATE},
    _ENVIRONMENT: {"get": Access.PRIVATE, "patch": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_ENVIRONMENT}/archive": {"put": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_ENVIRONMENT}/move": {"post": Access.PRIVATE},
    f"{_ENVIRONMENT}/forks": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_ENVIRONMENT}/diff": {"get": Access.PRIVATE},
    f"{_ENVIRONMENT}/star": {"put": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_ENVIRONMENT}/watches": {"get": Access.PRIVATE, "put": Access.PRIVATE},
    f"{_ENVIRONMENT}/watches/<id:watch_id>": {"delete": Access.PERSONAL},
    f"{_ENVIRONMENT}/pushes": {"post": Access.PRIVATE},
    f"{_ENVIRONMENT}/pushes/<uuid:push_id>/complete": {"post": Access.PRIVATE},
    f"{_ENVIRONMENT}/versions": {"get": Access.PRIVATE},
    _VERSION: {"get": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_VERSION}/yank": {"patch": Access.PRIVATE},
    f"{_VERSION}/rebuild": {"post": Access.PRIVATE},
    f"{_VERSION}/check": {"post": Access.PRIVATE},
    f"{_VERSION}/files": {"get": Access.PRIVATE},
    f"{_VERSION}/lock": {"get": Access.PRIVATE},
    f"{_VERSION}/download/<str:kind>": {"get": Access.PRIVATE},
    f"{_VERSION}/bundle": {"get": Access.PRIVATE},
    "api/v1/bundles": {"post": Access.PRIVATE},
    "api/v1/bundles/key": {"get": Access.SIGNED_IN},
    f"{_RUN}/build-report": {"post": Access.RUN},
    f"{_RUN}/packed": {"post": Access.RUN},
    "api/v1/wheels": {"post": Access.ANY_RUN},
    "api/v1/wheels/lookup": {"post": Access.ANY_RUN},
    "index/-/simple/<str:project>/": {"get": Access.ANY_RUN},
    "index/-/files/<str:sha256>/<str:filename>": {"get": Access.ANY_RUN},
    "index/<str:owner>/simple": {"get": Access.OPEN},  # a redirect to the form with a slash
    "index/<str:owner>/simple/": {"get": Access.PRIVATE},
    "index/<str:owner>/simple/<str:project>": {"get": Access.OPEN},
    "index/<str:owner>/simple/<str:project>/": {"get": Access.PRIVATE},
    "index/<str:owner>/files/<str:sha256>/<str:filename>": {"get": Access.PRIVATE},
    # catalog
    "api/v1/models": {"get": Access.OPEN},
    _MODEL: {"get": Access.PRIVATE, "put": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_MODEL}/files": {"get": Access.PRIVATE, "put": Access.PRIVATE},
    f"{_MODEL}/test": {"post": Access.PRIVATE},
    # data
    "api/v1/data": {"get": Access.SIGNED_IN},
    "api/v1/data/files": {
        "get": Access.SIGNED_IN,
        "put": Access.ADMINISTRATOR,
        "delete": Access.ADMINISTRATOR,
    },
    "api/v1/images": {
        "get": Access.SIGNED_IN,
        "put": Access.SIGNED_IN,
        "patch": Access.SIGNED_IN,
        "delete": Access.SIGNED_IN,
    },
    "api/v1/images/source": {"get": Access.ANY_RUN},
    "api/v1/images/pin": {"post": Access.ANY_RUN},
    "api/v1/images/builds": {"post": Access.SIGNED_IN},
    "api/v1/images/built": {"post": Access.ANY_RUN},
    "api/v1/repositories/source": {"get": Access.ANY_RUN},
    "outside": {"get": Access.SHARED},
    _DATA: {"put": Access.ADMINISTRATOR, "delete": Access.ADMINISTRATOR},
    f"{_DATA}/refresh": {"post": Access.ADMINISTRATOR},
    _HF: {"get": Access.SHARED},
    rf"{_HF}/tree/(?P<revision>[^/]+)(?:/(?P<folder>.*))?": {"get": Access.SHARED},
    rf"{_HF}/paths-info/(?P<revision>[^/]+)": {"post": Access.SHARED},
    rf"{_HF}/revision/(?P<revision>[^/]+)": {"get": Access.SHARED},
    rf"hf/(?P<plural>datasets)/{_REPOSITORY}/resolve/(?P<revision>[^/]+)/(?P<path>.+)": {"get": Access.SHARED},
    rf"hf/{_REPOSITORY}/resolve/(?P<revision>[^/]+)/(?P<path>.+)": {"get": Access.SHARED},
    # webhooks
    "api/v1/webhooks": {"get": Access.SIGNED_IN, "post": Access.SIGNED_IN},
    _WEBHOOK: {"get": Access.PRIVATE, "patch": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_WEBHOOK}/test": {"post": Access.PRIVATE},
    f"{_WEBHOOK}/deliveries": {"get": Access.PRIVATE},
    f"{_WEBHOOK}/deliveries/<id:delivery_id>/again": {"post": Access.PRIVATE},
    "settings/webhooks": {"get": Access.SIGNED_IN, "post": Access.SIGNED_IN},
    _WEBHOOK_PAGE: {"get": Access.PRIVATE},
    f"{_WEBHOOK_PAGE}/enable": {"post": Access.PRIVATE},
    f"{_WEBHOOK_PAGE}/delete": {"post": Access.PRIVATE},
    f"{_WEBHOOK_PAGE}/test": {"post": Access.PRIVATE},
    f"{_WEBHOOK_PAGE}/deliveries/<id:delivery_id>/again": {"post": Access.PRIVATE},
    # share links: what they show is in tests/hub/links
    "api/v1/share-links": {"get": Access.SIGNED_IN, "post": Access.PRIVATE},
    "api/v1/share-links/<id:link_id>": {"get": Access.PRIVATE, "delete": Access.PRIVATE},
    "settings/links": {"get": Access.SIGNED_IN},
    "settings/links/<id:link_id>/revoke": {"post": Access.PRIVATE},
    "evaluations/compare/links": {"get": Access.SIGNED_IN, "post": Access.SIGNED_IN},
    f"{_EVALUATION_PAGE}/links": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_ROLLOUT_PAGE}/links": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    "shared/<str:secret>": {"get": Access.OPEN},
    "shared/<str:secret>/examples/<int:example>": {"get": Access.OPEN},
    "shared/<str:secret>/rollouts": {"get": Access.OPEN},
    _SHARED_TRAINING_ROLLOUT: {"get": Access.OPEN},
    f"{_SHARED_TRAINING_ROLLOUT}/pictures/<int:number>/<int:picture>": {"get": Access.OPEN},
    f"{_SHARED_ROLLOUT}": {"get": Access.OPEN},
    f"{_SHARED_ROLLOUT}/pictures/<int:number>/<int:index>": {"get": Access.OPEN},
    # secrets
    "api/v1/secrets/<slug:owner>": {"get": Access.PRIVATE},
    "api/v1/secrets/<slug:owner>/<str:name>": {"put": Access.PRIVATE, "delete": Access.PRIVATE},
    # evals
    "api/v1/evaluations": {"get": Access.OPEN, "post": Access.PRIVATE},
    "api/v1/evaluations/push": {"post": Access.PRIVATE},
    "api/v1/evaluations/compare": {"get": Access.OPEN},
    _EVALUATION: {"get": Access.PRIVATE, "patch": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_EVALUATION}/cancel": {"post": Access.PRIVATE},
    f"{_EVALUATION}/compare/<id:other_id>": {"get": Access.PRIVATE},
    f"{_ENVIRONMENT}/leaderboard": {"get": Access.PRIVATE},
    f"{_EVALUATION}/clusters": {"get": Access.PRIVATE},
    f"{_EVALUATION}/labels": {"get": Access.PRIVATE},
    f"{_ROLLOUT}/labels/<str:label>": {"put": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_ROLLOUT}/notes": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_ROLLOUT}/notes/<id:note_id>": {"patch": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_EVALUATION}/views": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_EVALUATION}/views/<id:view_id>": {"delete": Access.PRIVATE},
    f"{_EVALUATION}/export": {"get": Access.PRIVATE},
    f"{_EVALUATION}/fingerprint": {"get": Access.PRIVATE},
    f"{_TRAINING}/fingerprint": {"get": Access.PRIVATE},
    f"{_EVALUATION_PAGE}/report": {"get": Access.PRIVATE},
    "evaluations/compare/report": {"get": Access.OPEN},
    "shared/<str:secret>/report": {"get": Access.OPEN},
    f"{_EVALUATION}/finalize": {"post": Access.PRIVATE},
    f"{_EVALUATION}/resume": {"post": Access.PRIVATE},
    f"{_EVALUATION}/rollouts": {"get": Access.PRIVATE},
    f"{_EVALUATION}/rollouts/<int:example>/<int:rollout>": {"get": Access.PRIVATE},
    f"{_EVALUATION}/segments": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_EVALUATION}/shards": {"get": Access.PRIVATE, "post": Access.EVALUATION},
    f"{_EVALUATION}/replayed": {"get": Access.EVALUATION},
    # training
    "api/v1/training": {"get": Access.OPEN, "post": Access.PRIVATE},
    _TRAINING: {"get": Access.PRIVATE, "patch": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_TRAINING}/stop": {"post": Access.PRIVATE},
    f"{_TRAINING}/resume": {"post": Access.PRIVATE},
    f"{_TRAINING}/metrics": {"get": Access.PRIVATE},
    f"{_TRAINING}/rollouts": {"get": Access.PRIVATE},
    f"{_TRAINING}/rollouts/<int:step>/<int:index>": {"get": Access.PRIVATE},
    f"{_TRAINING_ROLLOUT}/labels/<str:label>": {"put": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_TRAINING_ROLLOUT}/notes": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_TRAINING_ROLLOUT}/notes/<id:note_id>": {"patch": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_TRAINING}/labels": {"get": Access.PRIVATE},
    f"{_TRAINING}/views": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_TRAINING}/views/<id:view_id>": {"delete": Access.PRIVATE},
    f"{_TRAINING}/export": {"get": Access.PRIVATE},
    f"{_TRAINING}/beginning": {"post": Access.TRAINING},
    f"{_TRAINING}/steps": {"post": Access.TRAINING},
    f"{_TRAINING}/evaluations": {"post": Access.TRAINING},
    f"{_TRAINING}/checkpoints": {"get": Access.PRIVATE, "post": Access.TRAINING},
    f"{_TRAINING}/adapters": {"get": Access.PRIVATE, "post": Access.TRAINING},
    # inference
    f"{_RUN}/address": {"post": Access.RUN},
    "api/v1/deployments": {"get": Access.SIGNED_IN, "post": Access.PRIVATE},
    "api/v1/deployments/<id:deployment_id>": {"get": Access.PRIVATE, "delete": Access.PRIVATE},
    # sandboxes: their ports are guarded by signed addresses, see tests/hub/sandboxes
    "sandboxes": {"get": Access.SIGNED_IN},
    "sandboxes/<id:sandbox_id>": {"get": Access.PRIVATE},
    "sandboxes/<id:sandbox_id>/end": {"post": Access.PRIVATE},
    "sandboxes/<id:sandbox_id>/ports": {"post": Access.PRIVATE},
    "sandboxes/<id:sandbox_id>/ports/<id:port_id>/close": {"post": Access.PRIVATE},
    f"{_RUN}/sandbox": {"post": Access.RUN},
    "api/v1/sandboxes": {"get": Access.SIGNED_IN, "post": Access.PRIVATE},
    _SANDBOX: {"get": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_SANDBOX}/ports": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_SANDBOX}/ports/<id:port_id>": {"delete": Access.PRIVATE},
    f"{_SANDBOX}/siblings": {"post": Access.PRIVATE},
    f"{_SANDBOX}/exec": {"post": Access.PRIVATE},
    f"{_SANDBOX}/files": {"get": Access.PRIVATE, "put": Access.PRIVATE},
    f"{_SANDBOX}/log": {"get": Access.PRIVATE},
    f"{_SANDBOX}/stats": {"get": Access.PRIVATE},
    f"{_SANDBOX}/commands": {"get": Access.PRIVATE},
    f"{_SANDBOX}/processes": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_SANDBOX}/processes/<int:pid>": {"get": Access.PRIVATE, "delete": Access.PRIVATE},
    f"{_SANDBOX}/processes/<int:pid>/output": {"get": Access.PRIVATE},
    f"{_SANDBOX}/processes/<int:pid>/input": {"post": Access.PRIVATE},
    f"{_SANDBOX}/processes/<int:pid>/signal": {"post": Access.PRIVATE},
    f"{_SANDBOX}/processes/<int:pid>/resize": {"post": Access.PRIVATE},
    "inference/v1/models": {"get": Access.GATEWAY},
    "inference/v1/models/<slug:owner>/<str:name>": {"get": Access.GATEWAY},
    "inference/v1/chat/completions": {"post": Access.GATEWAY},
    "inference/v1/completions": {"post": Access.GATEWAY},
    "inference/v1/<path:rest>": {},  # 404 to everybody
}
RIGHTS |= compat.RIGHTS | training_pages.RIGHTS


def kwargs_of(world: World, route: str) -> dict[str, Any]:
    """What each URL argument is in the private world."""
    return private.kwargs_of(world, route) | (compat.kwargs_of(world) if route.startswith("prime/") else {})


def body_of(world: World, route: str, method: str) -> dict[str, Any]:
    """A body that gets the call as far as the object, where an empty one is refused before."""
    bodies: dict[tuple[str, str], dict[str, Any]] = {
        ("api/v1/blobs", "post"): {"blobs": []},
        ("api/v1/device/token", "post"): {"device_code": "x"},
        (f"{_ENVIRONMENT}/watches", "put"): {"above": 1},
        ("api/v1/workers/<id:worker_id>", "patch"): {"drained": True},
        ("api/v1/workers/join", "post"): {"name": "w", "hostname": "h", "queues": [], "slots": {}, "sandbox": "bwrap"},
        ("api/v1/users/<str:name>", "patch"): {"is_active": False},
        (account.TEAM, "patch"): {"display_name": "x"},
        ("settings/acting", "post"): {"owner": "alice"},
        ("api/v1/quotas/<slug:owner>", "put"): {"gpu_hours": 1},
        ("administration/quotas", "post"): {"owner": "alice"},
        (f"{account.TEAM}/members", "post"): {"user": "bob"},
        (f"{account.TEAM}/members/<slug:user>", "patch"): {"role": "reader"},
        (f"{_RUN}/claim", "post"): {"worker_id": str(world.worker.pk)},
        (f"{_RUN}/log", "post"): {"offset": 0, "text": "x"},
        (f"{_RUN}/sandboxes", "post"): {"living": 0},
        (f"{_RUN}/finish", "post"): {"state": "succeeded"},
        (f"{_RUN}/address", "post"): {"base_url": "http://127.0.0.1:9/v1", "secret": "x" * 16},
        (f"{_RUN}/sandbox", "post"): {"state": "running", "base_url": "http://127.0.0.1:9", "secret": "x" * 16},
        ("api/v1/sandboxes", "post"): {"owner": "alice"},
        (f"{_SANDBOX}/ports", "post"): {"port": 80},
        (f"{_MODEL}/files", "put"): {"files": {"config.json": world.version.wheel_id}},
        (f"{_ENVIRONMENT}/pushes", "post"): build_pair(f"{MARK}-env", "0.2.0").request().model_dump(mode="json"),
        (f"{_VERSION}/yank", "patch"): {"yanked": True},
        (_MODEL, "put"): {
            "name": f"{MARK}-model",
            "variants": [{"base_url": "http://127.0.0.1:9/v1", "model": "m"}],
            "test": False,
        },
        ("api/v1/secrets/<slug:owner>/<str:name>", "put"): {"value": "x"},
        ("api/v1/bundles", "post"): {
            "owner": "alice",
            "manifest": "{}",
            "signature": {"key": f"ed25519:{'A' * 43}", "signature": "A" * 86},
        },
        ("api/v1/evaluations", "post"): {"environment": f"alice/{MARK}-env", "model": "alice/stub"},
        ("api/v1/evaluations/push", "post"): {
            "environment": f"alice/{MARK}-env",
            "model": "gpt-x",
            "fingerprint": "b" * 64,
            "config": {"environment": f"alice/{MARK}-env", "model": "gpt-x"},
            "format": "results.jsonl",
        },
        (f"{_EVALUATION}/shards", "post"): {"number": 1, "examples": 2, "grouped": False},
        (f"{_EVALUATION}/segments", "post"): {"sha256": "0" * 64, "size": 1, "rows": []},
        (_WEBHOOK, "patch"): {"enabled": True},
        ("api/v1/share-links", "post"): {"evaluations": [str(world.evaluation.pk)]},
        (_EVALUATION, "patch"): {"visibility": "private"},
        (f"{_ROLLOUT}/notes", "post"): {"text": "x"},
        (f"{_ROLLOUT}/notes/<id:note_id>", "patch"): {"text": "x"},
        (f"{_EVALUATION}/views", "post"): {"name": "x", "query": {}},
        (_TRAINING, "patch"): {"visibility": "private"},
        (f"{_TRAINING_ROLLOUT}/notes", "post"): {"text": "x"},
        (f"{_TRAINING_ROLLOUT}/notes/<id:note_id>", "patch"): {"text": "x"},
        (f"{_TRAINING}/views", "post"): {"name": "x", "query": {}},
        ("api/v1/deployments", "post"): {"model": f"alice/{MARK}-weights"},
        ("api/v1/training", "post"): {"config": {"model": "alice/base", "env": [{"id": f"alice/{MARK}-env"}]}},
        (f"{_TRAINING}/beginning", "post"): {"step": 1},
        (f"{_TRAINING}/steps", "post"): {"metrics": {"step": 2}},
        (f"{_TRAINING}/evaluations", "post"): {"point": {"label": "val", "step": 1}},
        (f"{_TRAINING}/checkpoints", "post"): {"step": 1, "files": {"weights/w": world.version.wheel_id}},
        (f"{_TRAINING}/adapters", "post"): {
            "step": 1,
            "mode": "lora",
            "files": {"adapter_config.json": world.version.wheel_id},
        },
        ("inference/v1/chat/completions", "post"): {"model": f"alice/{MARK}-model", "messages": []},
        ("inference/v1/completions", "post"): {"model": f"alice/{MARK}-model", "prompt": "x"},
    }
    return (bodies | compat.bodies_of(world)).get((route, method), {})
