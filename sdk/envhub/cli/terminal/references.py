"""Names as people type them: `owner/name`, `owner/name@1.2.0`, or `name` of whom one acts for; models likewise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from envhub.cli.terminal.session import Session
from envhub.errors import UsageError

_SLUG = r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?"
_PATTERN = re.compile(rf"(?:(?P<owner>{_SLUG})/)?(?P<name>{_SLUG})(?:@(?P<version>[A-Za-z0-9.+!_-]+))?")


_ADDRESS = re.compile(
    r"https?://[^?#]*?/environments/(?P<name>[^/?#]+/[^/?#]+)(?:/versions/(?P<version>[^/?#]+))?([/?#].*)?"
)


@dataclass(frozen=True)
class Reference:
    """An environment and, if given, one of its versions."""

    owner: str
    name: str
    version: str | None = None

    @property
    def environment(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"

    @property
    def version_or_latest(self) -> str:
        """The version, "latest" when none was given."""
        return self.version or "latest"

    def __str__(self) -> str:
        return f"{self.environment}@{self.version}" if self.version else self.environment


def model_reference(session: Session, text: str) -> str:
    """`owner/name` of a model; a bare name belongs to whom one acts for."""
    return text if "/" in text else f"{session.owner}/{text}"


def parse(session: Session, text: str, *, need_version: bool = False) -> Reference:
    """Raises UsageError. A bare name belongs to whom one acts for; underscores of module names are forgiven.

    The address of a page of an environment, or of one of its versions, is one as well.
    """
    if page := _ADDRESS.fullmatch(text):
        text = unquote("@".join(filter(None, page.group("name", "version"))))
    head, at, version = text.partition("@")
    match = _PATTERN.fullmatch(head.lower().replace("_", "-") + at + version)
    if match is None:
        raise UsageError(f"{text!r} is not the name of an environment", hint="Write owner/name or owner/name@version.")
    if need_version and not version:
        raise UsageError(f"{text!r} names no version", hint=f"Write {text}@VERSION; `hub env versions` lists them.")
    return Reference(match["owner"] or session.owner, match["name"], match["version"])
