"""The operator's HTTP proxy, as HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY of this process name it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
VARIABLES = (*NAMES, *map(str.lower, NAMES), "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO")
SCHEMES = ("http", "https")
WITH_PASSWORD = re.compile(r"//[^/\s']*@")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
HOME: Mapping[str, None] = {"all://localhost": None, "all://127.0.0.1": None, "all://[::1]": None}  # httpx's `mounts`


def proxy_for(url: str) -> str | None:
    """The URL of the proxy that the process's environment names for `url`, never for loopback. Others than http:// and
    https:// ones (SOCKS) are left alone."""
    parts = urlsplit(url)
    if parts.hostname in LOOPBACK:
        return None
    proxies = getproxies_environment()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named or proxy_bypass_environment(parts.netloc.rpartition("@")[2], proxies):
        return None
    named = named if "://" in named else f"http://{named}"
    return named if urlsplit(named).scheme in SCHEMES else None


def told(error: BaseException) -> str:
    """An error in words that users may read: aiohttp's tell a proxy's address with its password."""
    return WITH_PASSWORD.sub("//", f"{type(error).__name__}: {error}".strip(": "))


def network_variables() -> dict[str, str]:
    """What a program needs to know to take the same ways and to trust the same authorities."""
    return {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
