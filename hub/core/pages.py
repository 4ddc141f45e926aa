"""How page views answer: with the whole page, or only the block that htmx requested; every HubError as a page.

A template says `{% extends layout %}`. For htmx, `layout` contains only the block named like the target element, so
that page and fragment come from one view and one template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, cast

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django_htmx.middleware import HtmxDetails

from hub.core.errors import HubError, NotAuthenticated
from hub.core.ids import AmbiguousId
from hub.core.requests.twins import api_path_of

FRAGMENTS = frozenset({"live", "owners", "palette", "results"})  # ids of elements; each has templates/layouts/<id>.html
HEADLINES = {
    400: "Bad request",
    403: "You are not allowed to do this",
    404: "Page not found",
    409: "Not possible right now",
    413: "Too large",
    422: "Invalid request",
    429: "Too many attempts",
    503: "Service unavailable",
}
LISTS = {
    "environments": "environments",
    "evaluations": "evaluations",
    "training": "training runs",
    "models": "models",
    "sandboxes": "sandboxes",
    "runs": "runs",
    "docs": "the documentation",
}
_WORDS = re.compile(r"[0-9a-fA-F-]+")
Arguments = ParamSpec("Arguments")
View = Callable[Concatenate[HttpRequest, Arguments], HttpResponseBase]


def fragment_of(request: HttpRequest) -> str:
    """Return the element that htmx wants to replace; "" if the whole page is requested."""
    htmx = cast("HtmxDetails", request.htmx)  # type: ignore[attr-defined]  # set by django_htmx's middleware
    if not htmx or htmx.boosted or htmx.history_restore_request:
        return ""
    return htmx.target if htmx.target in FRAGMENTS else ""


def show(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int = 200, base: str = "base.html"
) -> HttpResponse:
    """Render the page on `base`, or its fragment."""
    fragment = fragment_of(request)
    layout = f"layouts/{fragment}.html" if fragment else base
    twin = api_path_of(request) if layout == "base.html" else ""
    text = render_to_string(template, {**context, "layout": layout, "twin": twin}, request)
    response = HttpResponse(text.encode(errors="replace"), status=status)  # a package's text may have lone surrogates
    patch_vary_headers(response, ("HX-Request", "HX-Target"))
    return response


def _way_back(request: HttpRequest) -> tuple[str, str]:
    """Return the address and the name of the list that an address which failed belongs to."""
    section = request.path.split("/")[1]
    section = section if section in LISTS else "environments"
    return f"/{section}", LISTS[section]


def error_page(request: HttpRequest, error: HubError) -> HttpResponse:
    """Render an error for people."""
    context = {"status": error.status, "headline": HEADLINES.get(error.status, "Something went wrong"), "error": error}
    context["back"], context["back_to"] = _way_back(request)
    if isinstance(error, AmbiguousId):
        context["matches"] = _matches(request, error)
    return refusal(render(request, "web/error.html", context, status=error.status), error)


def _matches(request: HttpRequest, error: AmbiguousId) -> list[tuple[str, str, str]]:
    """Return (id, description, address of the same page for it) of all matches of an ambiguous id."""
    asked = request.get_full_path()
    given = next((part for part in _WORDS.findall(asked) if part.replace("-", "").lower() == error.given), "")
    return [(one, text, asked.replace(given, one, 1) if given else "") for one, text in error.fields.items()]


def refusal(response: HttpResponse, error: HubError) -> HttpResponse:
    """Add Retry-After to `response` if the error has it; for forms that show their own errors."""
    if retry_after := getattr(error, "retry_after", None):
        response["Retry-After"] = str(int(retry_after) + 1)
    return response


def _followed_by_htmx(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Make a fragment's redirect one of the page, or a session's end would put the login form into a list."""
    if not fragment_of(request) or response.status_code != 302:
        return response
    return leave_for(request, response["Location"])


def leave_for(request: HttpRequest, location: str) -> HttpResponse:
    """Redirect the page to another, also from a fragment that polls."""
    return HttpResponse(headers={"HX-Redirect": location}) if fragment_of(request) else redirect(location)


class Moved(Exception):
    """Raised while reading a page's data, if what was requested has moved to `location`."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


def _with_query(path: str, request: HttpRequest) -> str:
    query = request.GET.copy()
    query.pop("format")
    return f"{path}?{query.urlencode()}" if query else path


def page(view: View[Arguments]) -> View[Arguments]:
    """Turn exceptions of a page view into pages: NotAuthenticated leads to the login, Moved to the new location.

    `?format=json` redirects to the API's answer about the same thing.
    """

    def run(request: HttpRequest, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> HttpResponseBase:
        if request.method in {"GET", "HEAD"} and request.GET.get("format") == "json" and (twin := api_path_of(request)):
            return redirect(_with_query(twin, request))
        try:
            return _followed_by_htmx(request, view(request, *args, **kwargs))
        except Moved as found:
            return _followed_by_htmx(request, redirect(found.location))
        except NotAuthenticated:
            return _followed_by_htmx(request, redirect_to_login(request.get_full_path()))
        except HubError as error:
            return error_page(request, error)

    return update_wrapper(run, view)
