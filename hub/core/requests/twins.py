"""The JSON of a page: where the API has a route of the same form, which has its own rights."""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import Resolver404, resolve

_API = "api/v1/"


def twin_of(request: HttpRequest) -> str:
    """The path of the API's answer about what this page shows; "" where there is none.

    The whole pattern has to agree: the page of an owner named `usage` is not that of /api/v1/usage.
    """
    own, path = request.resolver_match, f"/{_API}{request.path_info[1:]}"
    if own is None:
        return ""
    try:
        match = resolve(path)
    except Resolver404:
        return ""
    view = getattr(match.func, "cls", None)
    formats = {renderer.format for renderer in getattr(view, "renderer_classes", ())}
    is_read = "get" in getattr(view, "http_method_names", ()) and "json" in formats
    return path if is_read and match.route == f"{_API}{own.route}" else ""
