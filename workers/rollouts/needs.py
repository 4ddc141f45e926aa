"""Needs as a box reports them, and what may be kept of them: people copy commands that are made of their names."""

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
_CLONED = re.compile(rf"{REPOSITORY}/info/refs\?service=git-upload-pack")  # what git asks first
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
    """Each need once, a bounded number, only those whose names are what their kind promises."""
    kept = distinct(need for need in needs if _is_plain(need))[:LIMIT]
    return tuple(need.model_copy(update={"detail": _one_line(need.detail)[:DETAIL]}) for need in kept)


def judges(models: Iterable[str]) -> tuple[Need, ...]:
    """What a run that asked these models as judges needs."""
    return tuple(Need(kind=NeedKind.JUDGE, name=name or "*") for name in models)


def files(lacking: Iterable[tuple[str, str]]) -> tuple[Need, ...]:
    """What had no answer, as (method, URL), where it was a file or a repository: for code that hides why it fails."""
    found = (need_at(url) or _of_git(url) for method, url in lacking if method == "GET")
    return tuple(need for need in found if need is not None)


def _of_git(url: str) -> Need | None:
    return Need(kind=NeedKind.CLONE_HOST, name=host_of(url)) if _CLONED.fullmatch(url) else None


def hosts(lacking: Iterable[tuple[str, str]], message: str) -> tuple[Need, ...]:
    """Where a program asked in vain whose end is all that the failure's message tells."""
    if not tells_of_a_program(message):
        return ()
    parts = (urlsplit(url) for _, url in lacking)
    places = dict.fromkeys(f"{one.hostname}:{one.port or _PORTS.get(one.scheme, 443)}" for one in parts if one.hostname)
    return tuple(Need(kind=NeedKind.HOST, name=place) for place in places)


def tells_of_a_program(message: str) -> bool:
    """Whether all that a failure says is that some program ended."""
    return _PROGRAM_ENDED.search(message) is not None


def hidden(lacking: Iterable[tuple[str, str]], message: str) -> tuple[Need, ...]:
    """What may be behind a failure that names no cause: what was asked for in vain before it.

    Libraries ask for much that nobody misses (a list of prices): a failure with another cause is not blamed on it.
    """
    if _OTHER_CAUSE.search(message) is not None:
        return ()
    asked = list(lacking)
    return cleaned(files(asked)) or cleaned(hosts(asked, message))


def told(needs: Iterable[Need]) -> str:
    """ "data set openai/gsm8k, secret SEARCH_KEY"."""
    return ", ".join(need.words for need in needs)


def _is_plain(need: Need) -> bool:
    return re.fullmatch(_NAMES[need.kind], need.name, re.ASCII) is not None


def _one_line(text: str) -> str:
    """Printable, without the rules (`*****`) and boxes with which some libraries frame what they say."""
    printable = "".join(char if char.isprintable() and not "\u2500" <= char <= "\u257f" else " " for char in text)
    return " ".join(word for word in printable.split() if not re.fullmatch(r"([*=~#_-])\1{3,}", word))
