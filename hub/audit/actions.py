"""What each route that writes does, in words. tests/hub/audit walks all routes: one that writes is here or in UNLOGGED,
with the reason.
"""

from __future__ import annotations

import re

_ENVIRONMENT = "environments/<str:owner>/<str:name>"
_VERSION = f"{_ENVIRONMENT}/versions/<str:version>"
_EVALUATION = "evaluations/<id:evaluation_id>"
_ROLLOUT = f"{_EVALUATION}/rollouts/<int:example>/<int:rollout>"
_TRAINING = "training/<id:training_id>"
_TRAINING_ROLLOUT = f"{_TRAINING}/rollouts/<int:step>/<int:index>"
_MODEL = "models/<slug:owner>/<str:name>"
_SECRET = "secrets/<slug:owner>/<str:name>"
_WEBHOOK = "webhooks/<id:webhook_id>"
_TEAM = "teams/<slug:team>"
_RUN = "runs/<id:run_id>"
_SANDBOX = "sandboxes/<id:sandbox_id>"
_DATA = r"data/(?P<kind>dataset|model)/(?P<repository>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)??)"
_ADMIN = "admin/"
_PRIME = "prime/api/v1"  # hub.compat
_RFT = "rft/runs/<id:training_id>"
_PRIME_SANDBOX = "sandbox/<id:sandbox_id>"
_PRIME_ADAPTER = f"{_PRIME}/rft/adapters/<slug:owner>/<str:model>"
_PRIME_HUB = f"{_PRIME}/environmentshub"
_PRIME_ID = f"{_PRIME_HUB}/<environment:environment>"
_PRIME_NAMED = f"{_PRIME_HUB}/<str:owner>/<str:name>"

_API = {
    "POST tokens": "made an API token",
    "DELETE tokens/<id:token_id>": "revoked an API token",
    "POST users": "invited a user",
    "PATCH users/<str:name>": "enabled or disabled a user",
    "POST teams": "made a team",
    f"PATCH {_TEAM}": "renamed a team",
    f"DELETE {_TEAM}": "deleted a team",
    f"POST {_TEAM}/members": "added a member to a team",
    f"PATCH {_TEAM}/members/<slug:user>": "changed a member's role",
    f"DELETE {_TEAM}/members/<slug:user>": "ended a membership",
    f"POST {_TEAM}/invitations": "made an invitation to a team",
    f"DELETE {_TEAM}/invitations/<id:invitation_id>": "revoked an invitation to a team",
    f"POST {_TEAM}/invitations/<id:invitation_id>/send": "sent an invitation to a team again",
    "POST join": "joined a team",
    "PUT quotas/<slug:owner>": "set an owner's quota",
    f"POST {_RUN}/cancel": "cancelled a run",
    f"DELETE {_RUN}/sandboxes/<str:sandbox_id>": "ended a sandbox of a run",
    "POST workers": "made a worker token",
    "PATCH workers/<id:worker_id>": "drained a worker, or had it take runs again",
    "DELETE workers/<id:worker_id>": "revoked a worker",
    f"PATCH {_ENVIRONMENT}": "changed an environment",
    f"DELETE {_ENVIRONMENT}": "deleted an environment",
    f"PUT {_ENVIRONMENT}/archive": "archived an environment",
    f"DELETE {_ENVIRONMENT}/archive": "took an environment back from the archive",
    f"POST {_ENVIRONMENT}/move": "moved an environment",
    f"POST {_ENVIRONMENT}/forks": "forked an environment",
    "DELETE former-names/<str:owner>/<str:name>": "forgot a former name of an environment",
    f"PUT {_ENVIRONMENT}/star": "starred an environment",
    f"DELETE {_ENVIRONMENT}/star": "took back a star",
    f"POST {_ENVIRONMENT}/pushes/<uuid:push_id>/complete": "pushed a version",
    f"DELETE {_VERSION}": "deleted a version",
    f"PATCH {_VERSION}/yank": "yanked or unyanked a version",
    f"POST {_VERSION}/rebuild": "rebuilt a version",
    f"POST {_VERSION}/check": "checked a version",
    "POST bundles": "imported a bundle",
    f"PUT {_MODEL}": "saved a model",
    f"DELETE {_MODEL}": "deleted a model",
    f"PUT {_MODEL}/files": "uploaded a model",
    f"POST {_MODEL}/test": "tested a model",
    "PUT data/files": "added a file for boxes",
    "DELETE data/files": "deleted a file for boxes",
    f"PUT {_DATA}": "added data",
    f"DELETE {_DATA}": "deleted data",
    f"POST {_DATA}/refresh": "refreshed data",
    "PUT images": "added an image",
    "PATCH images": "changed who may use an image",
    "DELETE images": "deleted an image",
    "POST images/builds": "built an image",
    "POST webhooks": "made a webhook",
    f"PATCH {_WEBHOOK}": "enabled or disabled a webhook",
    f"DELETE {_WEBHOOK}": "deleted a webhook",
    f"POST {_WEBHOOK}/test": "tested a webhook",
    f"POST {_WEBHOOK}/deliveries/<id:delivery_id>/again": "sent a message of a webhook again",
    f"PUT {_SECRET}": "set a secret",
    f"DELETE {_SECRET}": "deleted a secret",
    "POST evaluations": "started an evaluation",
    "POST evaluations/push": "pushed an evaluation",
    f"PATCH {_EVALUATION}": "shared or hid an evaluation",
    f"DELETE {_EVALUATION}": "deleted an evaluation",
    f"POST {_EVALUATION}/cancel": "cancelled an evaluation",
    f"POST {_EVALUATION}/resume": "resumed an evaluation",
    f"POST {_EVALUATION}/finalize": "finished the upload of an evaluation",
    **{
        f"{method} {rollout}/{part}": words
        for rollout in (_ROLLOUT, _TRAINING_ROLLOUT)
        for method, part, words in (
            ("PUT", "labels/<str:label>", "labelled a rollout"),
            ("DELETE", "labels/<str:label>", "took a label off a rollout"),
            ("POST", "notes", "wrote a note on a rollout"),
            ("PATCH", "notes/<id:note_id>", "changed a note on a rollout"),
            ("DELETE", "notes/<id:note_id>", "deleted a note on a rollout"),
        )
    },
    **{f"POST {whole}/views": "saved a view of rollouts" for whole in (_EVALUATION, _TRAINING)},
    **{f"DELETE {whole}/views/<id:view_id>": "deleted a view of rollouts" for whole in (_EVALUATION, _TRAINING)},
    "POST share-links": "made a share link",
    "DELETE share-links/<id:link_id>": "revoked a share link",
    "POST training": "started a training run",
    f"PATCH {_TRAINING}": "shared or hid a training run",
    f"DELETE {_TRAINING}": "deleted a training run",
    f"POST {_TRAINING}/stop": "stopped a training run",
    f"POST {_TRAINING}/resume": "resumed a training run",
    "POST deployments": "deployed a model",
    "DELETE deployments/<id:deployment_id>": "ended a deployment",
    "POST sandboxes": "made a sandbox",
    f"DELETE {_SANDBOX}": "ended a sandbox",
    f"POST {_SANDBOX}/ports": "opened a port of a sandbox",
    f"DELETE {_SANDBOX}/ports/<id:port_id>": "closed a port of a sandbox",
    f"POST {_SANDBOX}/siblings": "let programs outside make sandboxes",
}
_PAGES = {
    "POST login": "signed in",
    "POST login/passkey": "signed in with a passkey",
    "POST login/second-factor": "signed in with a second factor",
    "POST login/link/<str:secret>": "signed in with a link",
    "POST signup": "made an account",
    "POST password/new/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)": "set a new password by mail",
    "POST mail/confirm/<str:key>": "confirmed a mail address",
    "POST settings/account/mail": "changed the own mail addresses",
    "POST settings/account/two-factor": "turned on two-factor authentication",
    "POST settings/account/two-factor/off": "turned off two-factor authentication",
    "POST settings/account/passkeys/add": "added a passkey",
    "POST settings/account/passkeys/<int:pk>": "renamed a passkey",
    "POST settings/account/passkeys/<int:pk>/remove": "removed a passkey",
    "POST settings/account/recovery-codes/new": "made recovery codes",
    "POST settings/account/identities": "disconnected an identity",
    "POST settings/account/sessions": "ended the own other sessions",
    "POST invitation/<str:secret>": "accepted an invitation to the hub",
    "POST device": "answered a device that wants to sign in",
    "POST settings/tokens": "made an API token",
    "POST settings/tokens/<id:token_id>/revoke": "revoked an API token",
    "POST settings/password": "changed the own password",
    "POST settings/users": "invited a user",
    "POST settings/users/<str:name>/disable": "disabled a user",
    "POST settings/users/<str:name>/enable": "enabled a user",
    "POST settings/teams": "made a team",
    f"POST {_TEAM}/rename": "renamed a team",
    f"POST {_TEAM}/delete": "deleted a team",
    f"POST {_TEAM}/members": "added a member to a team",
    f"POST {_TEAM}/members/<slug:user>/role": "changed a member's role",
    f"POST {_TEAM}/members/<slug:user>/remove": "ended a membership",
    f"POST {_TEAM}/invitations": "made an invitation to a team",
    f"POST {_TEAM}/invitations/<id:invitation_id>/revoke": "revoked an invitation to a team",
    f"POST {_TEAM}/invitations/<id:invitation_id>/send": "sent an invitation to a team again",
    "POST join/<str:secret>": "joined a team",
    "POST administration/quotas": "set an owner's quota",
    "POST administration/data/forget": "deleted data",
    "POST environments/new": "uploaded an environment",
    "POST environments/sample": "added a sample environment",
    f"POST {_ENVIRONMENT}/archive": "archived an environment, or took it back",
    f"POST {_ENVIRONMENT}/fork": "forked an environment",
    f"POST {_ENVIRONMENT}/move": "moved an environment",
    f"POST {_ENVIRONMENT}/settings": "changed an environment",
    f"POST {_ENVIRONMENT}/star": "starred an environment, or took the star back",
    f"POST {_ENVIRONMENT}/evaluate": "started an evaluation",
    f"POST {_VERSION}/rebuild": "rebuilt a version",
    f"POST {_VERSION}/yank": "yanked or unyanked a version",
    f"POST {_VERSION}/check": "checked a version",
    f"POST {_EVALUATION}/cancel": "cancelled an evaluation",
    f"POST {_EVALUATION}/resume": "resumed an evaluation",
    f"POST {_EVALUATION}/share": "shared or hid an evaluation",
    **{
        f"POST {rollout}/{part}": words
        for rollout in (_ROLLOUT, _TRAINING_ROLLOUT)
        for part, words in (
            ("label", "labelled a rollout, or took a label off"),
            ("note", "wrote a note on a rollout"),
            ("note/<id:note_id>", "changed or deleted a note on a rollout"),
        )
    },
    **{f"POST {whole}/views": "saved a view of rollouts" for whole in (_EVALUATION, _TRAINING)},
    **{f"POST {whole}/views/<id:view_id>/delete": "deleted a view of rollouts" for whole in (_EVALUATION, _TRAINING)},
    f"POST {_EVALUATION}/links": "made a share link",
    f"POST {_ROLLOUT}/links": "made a share link",
    "POST evaluations/compare/links": "made a share link",
    f"POST {_TRAINING}/links": "made a share link",
    "POST settings/links/<id:link_id>/revoke": "revoked a share link",
    "POST training/new": "started a training run",
    f"POST {_TRAINING}/stop": "stopped a training run",
    f"POST {_TRAINING}/resume": "resumed a training run",
    f"POST {_TRAINING}/share": "shared or hid a training run",
    f"POST {_RUN}/cancel": "cancelled a run",
    f"POST {_RUN}/sandboxes/<str:sandbox_id>/end": "ended a sandbox of a run",
    "POST models": "saved a model",
    f"POST {_MODEL}/test": "tested a model",
    f"POST {_MODEL}/deploy": "deployed a model",
    "POST deployments/<id:deployment_id>/end": "ended a deployment",
    f"POST {_MODEL}/delete": "deleted a model",
    "POST settings/webhooks": "made a webhook",
    f"POST settings/{_WEBHOOK}/enable": "enabled or disabled a webhook",
    f"POST settings/{_WEBHOOK}/delete": "deleted a webhook",
    f"POST settings/{_WEBHOOK}/test": "tested a webhook",
    f"POST settings/{_WEBHOOK}/deliveries/<id:delivery_id>/again": "sent a message of a webhook again",
    "POST data/images/<uuid:image_id>/visibility": "changed who may use an image",
    "POST data/images/<uuid:image_id>/delete": "deleted an image",
    "POST settings/secrets": "set a secret",
    f"POST settings/{_SECRET}/delete": "deleted a secret",
    "POST settings/workers/<id:worker_id>/drain": "drained a worker, or had it take runs again",
    "POST settings/workers/<id:worker_id>/revoke": "revoked a worker",
    f"POST {_SANDBOX}/end": "ended a sandbox",
    f"POST {_SANDBOX}/ports": "opened a port of a sandbox",
    f"POST {_SANDBOX}/ports/<id:port_id>/close": "closed a port of a sandbox",
}
_CLIENTS = {
    f"POST {_PRIME_ID}/versions/<uuid:version_id>/finalize": "pushed a version",
    f"DELETE {_PRIME_ID}": "deleted an environment",
    f"DELETE {_PRIME_NAMED}": "deleted an environment",
    f"DELETE {_PRIME_NAMED}/@<str:version>": "deleted a version",
    f"POST {_PRIME_NAMED}/fork": "forked an environment",
    f"POST {_PRIME}/evaluations/": "pushed an evaluation",
    f"PUT {_PRIME}/{_EVALUATION}": "changed an evaluation that is being pushed",
    f"POST {_PRIME}/{_EVALUATION}/finalize": "finished the upload of an evaluation",
    f"POST {_PRIME}/hosted-evaluations": "started an evaluation",
    f"PATCH {_PRIME}/hosted-{_EVALUATION}/cancel": "cancelled an evaluation",
    f"POST {_PRIME}/rft/runs": "started a training run",
    f"DELETE {_PRIME}/{_RFT}": "deleted a training run",
    f"PUT {_PRIME}/{_RFT}/stop": "stopped a training run",
    f"PUT {_PRIME}/{_RFT}/restart": "resumed a training run",
    f"POST {_PRIME_ADAPTER}/deploy": "deployed a model",
    f"POST {_PRIME_ADAPTER}/unload": "ended a deployment",
    f"POST {_PRIME}/rft/checkpoints/<id:checkpoint_id>/deploy": "deployed a model",
    f"POST {_PRIME}/sandbox": "made a sandbox",
    f"DELETE {_PRIME}/sandbox": "ended sandboxes",
    f"DELETE {_PRIME}/{_PRIME_SANDBOX}": "ended a sandbox",
    f"POST {_PRIME}/{_PRIME_SANDBOX}/expose": "opened a port of a sandbox",
    f"DELETE {_PRIME}/{_PRIME_SANDBOX}/expose/<id:port_id>": "closed a port of a sandbox",
    f"PATCH {_PRIME}/images": "changed images",
    f"POST {_PRIME}/images/build/<uuid:build_id>/start": "built an image",
    f"DELETE {_PRIME}/images/<path:image>/<str:tag>": "deleted an image",
    f"POST {_PRIME}/secrets/": "set a secret",
    f"PATCH {_PRIME}/secrets/<str:secret_id>": "set a secret",
    f"DELETE {_PRIME}/secrets/<str:secret_id>": "deleted a secret",
}
# also posted to be looked at, or shown again with what is wrong; a redirect means done
SHOWN_AGAIN = frozenset(
    {
        "POST environments/new",
        f"POST {_ENVIRONMENT}/fork",
        f"POST {_ENVIRONMENT}/evaluate",
        "POST training/new",
        "POST signup",
        "POST password/new/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)",
        "POST settings/account/mail",
        "POST settings/account/two-factor",
        "POST settings/account/passkeys/add",
        "POST settings/account/passkeys/<int:pk>",
        "POST settings/account/two-factor/off",
        "POST settings/account/recovery-codes/new",
        "POST settings/account/identities",
    }
)
# what a person does on another host, which sends the browser back by GET
RETURNS = {"GET login/identity/<slug:provider_id>/callback": "signed in with the identity provider"}
ACTIONS = {call.replace(" ", " api/v1/", 1): words for call, words in _API.items()} | _PAGES | _CLIENTS

_REPORT = "a run or a worker reports with its own token; who started the run is logged"
_INSIDE = "happens inside a sandbox, which keeps its own list of commands"
_READS = "changes nothing"
_PARTS = "a part of a write that is logged at its end"
_API_UNLOGGED = {
    "POST device/code": "nobody is signed in yet; who approves the device is logged",
    "POST device/token": "the poll of a device; who approves it is logged",
    "POST blobs": _PARTS,
    "PUT blobs/(?P<sha256>[0-9a-f]{64})": _PARTS,
    f"POST {_ENVIRONMENT}/pushes": _PARTS,
    f"POST {_EVALUATION}/segments": _PARTS,
    **{
        f"POST {_RUN}/{part}": _REPORT
        for part in (
            *("log", "sandboxes", "claim", "start", "heartbeat", "finish", "build-report", "packed", "address"),
            "sandbox",
        )
    },
    "POST workers/join": _REPORT,
    "POST workers/<id:worker_id>/beat": _REPORT,
    "POST wheels": _REPORT,
    "POST wheels/lookup": _REPORT,
    "POST images/pin": _REPORT,
    "POST images/built": _REPORT,
    f"POST {_EVALUATION}/shards": _REPORT,
    **{
        f"POST {_TRAINING}/{part}": _REPORT for part in ("beginning", "steps", "evaluations", "checkpoints", "adapters")
    },
    f"POST {_SANDBOX}/exec": _INSIDE,
    f"PUT {_SANDBOX}/files": _INSIDE,
    f"POST {_SANDBOX}/processes": _INSIDE,
    f"DELETE {_SANDBOX}/processes/<int:pid>": _INSIDE,
    **{f"POST {_SANDBOX}/processes/<int:pid>/{part}": _INSIDE for part in ("input", "signal", "resize")},
}
_OWN_NOTICES = "changes what the user alone sees"
_API_UNLOGGED |= {
    "POST notifications/read": _OWN_NOTICES,
    "POST notifications/<id:notice_id>/read": _OWN_NOTICES,
    "PUT notifications/choices": _OWN_NOTICES,
    f"PUT {_ENVIRONMENT}/watches": _OWN_NOTICES,
    f"DELETE {_ENVIRONMENT}/watches/<id:watch_id>": _OWN_NOTICES,
}
UNLOGGED = {call.replace(" ", " api/v1/", 1): why for call, why in _API_UNLOGGED.items()} | {
    "POST password/forgotten": "sends a mail, to nobody who is signed in; the new password is logged",
    "POST settings/confirm": "shows again who the user is, and changes nothing",
    "POST settings/confirm/passkey": "shows again who the user is, and changes nothing",
    "POST settings/confirm/code": "shows again who the user is, and changes nothing",
    "POST settings/acting": "chooses what the user's own forms begin with, and changes nothing",
    "POST notifications/read": _OWN_NOTICES,
    "POST notifications/choices": _OWN_NOTICES,
    "POST notifications/<id:notice_id>/open": _OWN_NOTICES,
    f"POST {_ENVIRONMENT}/watches": _OWN_NOTICES,
    f"POST {_ENVIRONMENT}/watches/<id:watch_id>": _OWN_NOTICES,
    "POST logout": "ends the own session, and nothing else",
    f"POST {_PRIME}/auth_challenge/generate": "nobody is signed in yet; who approves the device is logged",
    f"PATCH {_PRIME}/user/slug": _READS,
    f"POST {_PRIME_HUB}/resolve": _READS,
    f"POST {_PRIME_HUB}/lookup": _READS,
    f"POST {_PRIME_ID}/wheels": _PARTS,
    f"POST {_PRIME_ID}/wheels/<uuid:wheel_id>/finalize": _PARTS,
    f"POST {_PRIME_ID}/versions": _PARTS,
    "PUT prime/uploads/<str:grant>": _PARTS,
    f"POST {_PRIME}/{_EVALUATION}/samples": _PARTS,
    f"POST {_PRIME}/traces": _READS,
    f"POST {_PRIME}/images/build": _PARTS,
    "PUT prime/image-contexts/<str:grant>": _PARTS,
    f"POST {_PRIME}/sandbox/status:batchGet": _READS,
    f"POST {_PRIME}/{_PRIME_SANDBOX}/auth": _INSIDE,
    **{
        f"{method} {whole}": _READS
        for whole in (f"{_PRIME}/<path:rest>", f"{_PRIME_ID}/<path:rest>", f"{_PRIME}/(?P<rest>images/.+/vm-build)")
        for method in ("POST", "PUT", "PATCH", "DELETE")
    },
    "POST inference/v1/chat/completions": _READS,
    "POST inference/v1/completions": _READS,
    "POST hf/api/(?P<plural>datasets|models)/(?P<repository>[A-Za-z0-9][\\w.-]*(?:/[A-Za-z0-9][\\w.-]*)??)"
    "/paths-info/(?P<revision>[^/]+)": _READS,
}


def action_of(method: str, route: str, status: int = 200) -> str | None:
    """What a call that succeeded did; None for what is not logged. What nobody has thought of is logged as it is."""
    call = f"{method} {plain(route)}"
    if call in UNLOGGED or (call in SHOWN_AGAIN and status < 300):
        return None
    if route.startswith(_ADMIN):
        return "changed something in Django's admin"
    return RETURNS.get(call) or ACTIONS.get(call, call[:200])


def plain(route: str) -> str:
    """Of a resolver's match: without the anchors of regular expressions, as the tables write it."""
    return re.sub(r"(?<!\[)\^", "", route).removesuffix("$")
