"""Which hub, and as whom: HUB_URL, HUB_TOKEN and HUB_OWNER win, then the file that `hub login` writes (0600)."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs
import tomlkit

from envhub.errors import UsageError

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True)
class Configuration:
    """The hub to talk to. `source` says where the token came from, for `hub config`."""

    url: str
    token: str | None
    source: str
    owner: str | None = None  # for whom commands act that name nobody: a team; None: for the caller
    unread: str = ""  # why the file could not be read


def config_path() -> Path:
    """Where the file is."""
    return platformdirs.user_config_path("envhub") / "config.toml"


def read_configuration(environ: Mapping[str, str], path: Path) -> Configuration:
    """Raises UsageError when HUB_URL is no address, or the file is not TOML, unless HUB_URL and HUB_TOKEN are set."""
    stored, unread = {}, ""
    try:
        stored = _read(path)
    except UsageError as error:
        if not (environ.get("HUB_URL") and environ.get("HUB_TOKEN")):
            raise
        unread = error.message
    url = hub_address(environ.get("HUB_URL") or stored.get("url") or DEFAULT_URL)
    here = url == stored.get("owner_url")
    owner = environ.get("HUB_OWNER") or (stored.get("owner") if here else None)
    if token := environ.get("HUB_TOKEN"):
        return Configuration(url, token, "HUB_TOKEN", owner, unread)
    saved = stored.get("token") if url == stored.get("url") else None
    return Configuration(url, saved, str(path) if saved else "nowhere", owner)


def hub_address(text: str) -> str:
    """The address without a slash at its end. Raises UsageError."""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        is_address = False
    if not is_address:
        raise UsageError(f"{text!r} is not the address of a hub", hint="Write http://host:port or https://host.")
    return text.rstrip("/")


def save_login(path: Path, url: str, token: str) -> None:
    """Keep the login; an earlier one, and whom it acted for, is forgotten."""
    _write(path, {"url": url.rstrip("/"), "token": token})


def save_owner(path: Path, url: str, owner: str | None) -> None:
    """Keep for whom commands act on this hub; None: for the caller."""
    stored = {key: value for key, value in _read(path).items() if key not in {"owner", "owner_url"}}
    _write(path, stored | ({"owner": owner, "owner_url": url} if owner else {}))


def _write(path: Path, values: Mapping[str, str]) -> None:
    """Readable by its user alone; the file replaces an earlier one whole."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as sink:
        sink.write(tomlkit.dumps(values))
    partial.replace(path)


def forget_login(path: Path) -> bool:
    """Remove the stored login; whether there was one."""
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def _read(path: Path) -> dict[str, str]:
    try:
        table = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = "`hub login URL` writes it anew, `hub logout` removes it."
        raise UsageError(f"{path} is broken: {error}", hint=hint) from error
    return {key: value for key, value in table.items() if isinstance(value, str)}
