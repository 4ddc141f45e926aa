"""Answers for calls of Prime's service that this hub does not offer to its clients."""

from __future__ import annotations

from django.http import HttpResponseBase
from rest_framework.request import Request

from hub.compat.answers import client_view
from hub.compat.names import EnvironmentId
from hub.core.errors import NotFound

_HARDWARE = "a hub rents out no hardware: its runs and sandboxes are on the workers that its operator adds"
_UPLOAD = "upload what a sandbox needs, or have it in its image (`hub image build`)"
_TRAINING = (
    "`hub train run FILE.toml`, or `prime train FILE.toml` of prime 0.6.35, starts a file in the hosted form (model, "
    "and [[env]] tables); `hub train check FILE.toml` says what to change in one of prime-rl. `prime train stop` and "
    "`prime train restart` end a run and go on with it"
)
_ELSE = "the page /docs/migrating of this hub says what there is"
_MODELS = "`hub model list` shows what can be trained, and what it needs"
# Hints by a part of the path; the first that is found counts.
_INSTEAD = {
    **dict.fromkeys(("availability", "pods", "disks", "factory", "slurm-clusters"), _HARDWARE),
    "external-runs": "only training runs of this hub's own workers are recorded (`hub train run FILE.toml`); "
    "evaluations of another trainer's checkpoints can be pushed: `prime eval push`, `hub eval push`",
    **dict.fromkeys(("available-gpu-types", "available-fft-models"), _MODELS),
    "feedback": "tell the operator of this hub",
    "traces": "rollouts are kept with what made them: `prime eval samples ID`, `prime train rollouts ID`",
    "ssh-session": "`hub sandbox shell ID` opens a terminal",
    "egress-policy": "hosts are given when a sandbox is made (network_allowlist)",
    "checkpoints": _UPLOAD,
    "volumes": _UPLOAD,
    "networks": "let a sandbox reach another's port by the address that `expose` gives",
    "tunnel": "tunnels lead to sandboxes that are beside each other: `hub sandbox serve -- PROGRAM` starts a program "
    "that has both",
    "vm-build": "an image is taken as it was pushed: `prime sandbox create prime/OWNER/NAME:TAG`",
    "training": _TRAINING,
    "rft": "runs have other ids here: `prime train list`; what a run has made is a model: `hub model list`, "
    "`hub deploy`",
    "billing": "nothing is billed here: `hub usage` shows what your runs have used",
}
# What is called by an id, with the command that shows the ids.
_LISTED = {"sandbox": "`prime sandbox list` shows yours", "evaluations": "`prime eval list` shows yours"}


@client_view("GET", "POST", "PUT", "PATCH", "DELETE", signed_in=False)
def not_offered(request: Request, rest: str) -> HttpResponseBase:
    """Raises NotFound, naming the command that does the same here."""
    parts = rest.split("/")
    if len(parts) == 2 and parts[0] in _LISTED:
        raise NotFound(f"{parts[1][:100]} is no id of this hub", hint=_LISTED[parts[0]])
    instead = next((hint for part, hint in _INSTEAD.items() if part in parts), _ELSE)
    error = NotFound("this hub does not offer that to Prime's clients", hint=instead)
    if parts[0] == "tunnel":
        error.status = 400  # prime-tunnel takes a 404 for an empty list
    raise error


@client_view("GET", "POST", "PUT", "PATCH", "DELETE", signed_in=False)
def not_of_an_environment(request: Request, environment: EnvironmentId, rest: str) -> HttpResponseBase:
    """Raises NotFound for secrets and variables of a single environment."""
    hint = "they are an owner's here, and a run is given those that it needs: `prime secret create`, `hub secret set`"
    raise NotFound("environments of this hub have no secrets and variables of their own", hint=hint)
