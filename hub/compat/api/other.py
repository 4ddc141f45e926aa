"""What Prime's service has and this hub does not offer by its clients."""

from __future__ import annotations

from django.http import HttpResponseBase
from rest_framework.request import Request

from hub.compat.answers import client_view
from hub.compat.names import EnvironmentId
from hub.core.errors import NotFound

_INSTEAD = {
    "sandbox": "`hub sandbox create`, or `hub sandbox serve -- COMMAND` for a program that makes its own",
    "images": "`hub image add`",
    "training": "`hub train run FILE.toml`, or `prime train FILE.toml` of prime 0.6.35, starts a file in the hosted "
    "form (model, and [[env]] tables); `hub train check FILE.toml` says what to change in one of prime-rl. `prime "
    "train stop` and `prime train restart` end a run and go on with it",
    "rft": "runs have other ids here: `prime train list`; what a run has made is a model: `hub model list`, "
    "`hub deploy`",
    "billing": "nothing is billed here: `hub usage` shows what your runs have used",
}


@client_view("GET", "POST", "PUT", "PATCH", "DELETE", signed_in=False)
def not_offered(request: Request, rest: str) -> HttpResponseBase:
    """Raises NotFound, with the command that does it here."""
    instead = _INSTEAD.get(rest.split("/")[0], "the page /docs/migrating of this hub says what there is")
    raise NotFound("this hub does not offer that to Prime's clients", hint=instead)


@client_view("GET", "POST", "PUT", "PATCH", "DELETE", signed_in=False)
def not_of_an_environment(request: Request, environment: EnvironmentId, rest: str) -> HttpResponseBase:
    """Raises NotFound: secrets and variables of one environment."""
    hint = "they are an owner's here, and a run is given those that it needs: `prime secret create`, `hub secret set`"
    raise NotFound("environments of this hub have no secrets and variables of their own", hint=hint)
