"""On which object a write was: from the path that was called, else from where the answer says that the new thing is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpResponse, HttpResponseBase
from django.urls import Resolver404, ResolverMatch, resolve

LONGEST_READ = 64 * 1024  # of an answer, in bytes
HIDDEN = {"secret", "push_id", "key", "uidb36"}  # arguments of paths that name nothing for people, or too much
_NAMING = ("owner", "name", "version", "id")  # fields of an answer that are read, and no others
_INSIDE = ("view", "user", "invitation", "version", "link")  # where they may be


def subject_of(match: ResolverMatch, response: HttpResponseBase) -> str:
    """In words: `owner/name@version`, a name or an id; empty for what is only one thing, as one's own password."""
    return _named(match.kwargs) or _of_redirect(response) or _of_answer(response)


def _named(known: Mapping[str, Any]) -> str:
    given = {name: str(value) for name, value in known.items() if name not in HIDDEN}
    owner, name = given.pop("owner", ""), given.pop("name", "")
    version = given.pop("version", "")
    first = "/".join(part for part in (owner, name) if part) + (f"@{version}" if version else "")
    return " ".join(part for part in (first, *given.values()) if part)


def _of_redirect(response: HttpResponseBase) -> str:
    if not 300 <= response.status_code < 400:
        return ""
    try:
        return _named(resolve(urlsplit(response["Location"]).path).kwargs)
    except (Resolver404, KeyError, ValueError):
        return ""


def _of_answer(response: HttpResponseBase) -> str:
    if not isinstance(response, HttpResponse) or response.get("Content-Type", "") != "application/json":
        return ""
    if len(response.content) > LONGEST_READ:
        return ""
    try:
        answer = json.loads(response.content or "null")
    except ValueError:
        return ""
    if not isinstance(answer, dict):
        return ""
    for found in (answer, *(answer.get(name) for name in _INSIDE)):
        if isinstance(found, dict) and (named := _of_fields(found)):
            return named
    return ""


def _of_fields(found: Mapping[str, Any]) -> str:
    texts: dict[str, str] = {name: found[name] for name in _NAMING if isinstance(found.get(name), str) and found[name]}
    if "name" in texts:
        texts.pop("id", None)
        return _named(texts)
    return texts.get("id", "")
