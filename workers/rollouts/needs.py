"""Filters the needs that a box reports, since users copy commands made from their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from envhub.packaging.references import host_of
from envhub.protocol.accounts.secrets import SECRET_NAME
from envhub.protocol.registry.files import REPOSITORY, need_at
from envhub.protocol.registry.needs import BROWSER, NPM, Need, NeedKind, distinct

LIMIT = 20
DETAIL = 500
_PROGRAM_ENDED = re.compile(
    r"CalledProcessError|TimeoutExpired|ExceptionGroup|Connection closed|curl: \(\d+\)|fatal: unable to access"
    r"|it ended with status \d+"
)
_OTHER_CAUSE = re.compile(
    r"\b(?:ModuleNotFoundError|ImportError|RecursionError|SyntaxError)\b|this rollout has used its \d+ model calls"
)
_CLONED = re.compile(rf"{REPOSITORY}/info/refs\?service=git-upload-pack")  # git's first request for a repository
_PORTS = {"http": 80, "https": 443}
_GIT_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_NAMES = {
    NeedKind.DATA_SET: r"\w[\w.-]{0,99}(/\w[\w.-]{0,99})?",
    NeedKind.MODEL: r"\w[\w.-]{0,99}(/\w[\w.-]{0,99})?",
    NeedKind.CORPUS: r"[a-z]{1,20}:\w[\w./-]{0,199}",
    NeedKind.FILE: r"https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:\d{1,5})?/[\w./~%+@=,:-]{1,400}"
    r"(\?(raw|download|dl)=(true|1))?",  # no user, no other query
    NeedKind.SECRET: SECRET_NAME,
    NeedKind.ARGUMENT: r"[A-Za-z_]\w{0,99}(\.[A-Za-z_]\w{0,99}){0,5}",
    NeedKind.HOST: r"(?=.{1,260}\Z)[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?:\d{1,5}",
    NeedKind.JUDGE: r"\*|\w[\w./:@-]{0,199}",
    NeedKind.SANDBOX: r"\*|\w[\w./:@-]{0,299}",
    NeedKind.GPU: r"\*",
    NeedKind.GIT_HOST: _GIT_HOST,
    NeedKind.CLONE_HOST: _GIT_HOST,
    NeedKind.PROGRAM: rf"\w[\w.+-]{{0,99}}|{NPM}(@[\w.-]{{1,99}}/)?[\w.-]{{1,99}}@[\w.+~^*-]{{1,60}}"
    rf"|{BROWSER}[a-z_-]{{1,60}}-\d{{1,8}}",
    NeedKind.OPEN_FILES: r"\d{4,7}",
}


def cleaned(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Return each need once, limited in number, and only those whose names have the form of their kind."""
    kept = distinct(need for need in needs if _is_plain(need))[:LIMIT]
    return tuple(need.model_copy(update={"detail": _one_line(need.detail)[:DETAIL]}) for need in kept)


def judges(models: Iterable[str]) -> tuple[Need, ...]:
    """Return the needs of a run that asked these models as judges."""
    return tuple(Need(kind=NeedKind.JUDGE, name=name or "*") for name in models)


def files(lacking: Iterable[tuple[str, str]]) -> tuple[Need, ...]:
    """Return needs for unanswered requests (method, URL) for files or repositories, for code that hides its error."""
    found = (need_at(url) or _of_git(url) for method, url in lacking if method == "GET")
    return tuple(need for need in found if need is not None)


def _of_git(url: str) -> Need | None:
    return Need(kind=NeedKind.CLONE_HOST, name=host_of(url)) if _CLONED.fullmatch(url) and _place(url) else None


def hosts(lacking: Iterable[tuple[str, str]], message: str) -> tuple[Need, ...]:
    """Return needs for hosts of unanswered requests, if the failure only tells that a program ended."""
    if not tells_of_a_program(message):
        return ()
    places = dict.fromkeys(_place(url) for _, url in lacking)
    return tuple(Need(kind=NeedKind.HOST, name=place) for place in places if place)


def _place(url: str) -> str:
    """Return the host and port of a URL; "" if it names none, because a box may ask for anything."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 443)
    except ValueError:
        return ""
    return f"{parts.hostname}:{port}" if parts.hostname else ""


def tells_of_a_program(message: str) -> bool:
    """Return whether a failure says no more than that some program ended."""
    return _PROGRAM_ENDED.search(message) is not None


def hidden(lacking: Iterable[tuple[str, str]], message: str) -> tuple[Need, ...]:
    """Return what may have caused a failure that names no cause: what was requested in vain before it.

    Libraries make many requests that they can do without (a list of prices), so a failure with another cause is not
    blamed on them.
    """
    if _OTHER_CAUSE.search(message) is not None:
        return ()
    asked = list(lacking)
    return cleaned(files(asked)) or cleaned(hosts(asked, message))


def told(needs: Iterable[Need]) -> str:
    """Describe needs, such as "data set openai/gsm8k, secret SEARCH_KEY"."""
    return ", ".join(need.words for need in needs)


def _is_plain(need: Need) -> bool:
    return re.fullmatch(_NAMES[need.kind], need.name, re.ASCII) is not None


def _one_line(text: str) -> str:
    """Make a text printable, without the rules (`*****`) and boxes with which some libraries frame their messages."""
    printable = "".join(char if char.isprintable() and not "\u2500" <= char <= "\u257f" else " " for char in text)
    return " ".join(word for word in printable.split() if not re.fullmatch(r"([*=~#_-])\1{3,}", word))
