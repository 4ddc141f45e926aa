"""What Prime's service has and this hub does not offer by its clients."""

from __future__ import annotations

from django.http import HttpResponseBase
from rest_framework.request import Request

from hub.compat.answers import client_view
from hub.core.errors import NotFound

_INSTEAD = {
    "sandbox": "`hub sandbox create`, or `hub sandbox serve -- COMMAND` for a program that makes its own",
    "images": "`hub image add`",
    "training": "`hub train run FILE.toml`",
    "rft": "`hub train run FILE.toml`",
    "environmentshub": "secrets are an owner's here: `prime secret create`, `hub secret set`",
}


@client_view("GET", "POST", "PUT", "PATCH", "DELETE", signed_in=False)
def not_offered(request: Request, rest: str) -> HttpResponseBase:
    """Raises NotFound, with the command that does it here."""
    instead = _INSTEAD.get(rest.split("/")[0], "the page /docs/migrating of this hub says what there is")
    raise NotFound("this hub does not offer that to Prime's clients", hint=instead)
