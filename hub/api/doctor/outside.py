"""The proxy by which the outside is reached, where this process's environment names one."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from envhub.proxies import proxy_for

from hub.api.doctor.findings import Finding, failure, ok
from hub.data.reach import PATIENCE_S, is_reachable, place_of

SOMEWHERE = ("https://example.com/", "http://example.com/")  # any address that no NO_PROXY names


def look_at_proxy() -> Iterator[Finding]:
    """Connects. Nothing is asked of it."""
    proxies = list(dict.fromkeys(proxy for url in SOMEWHERE if (proxy := proxy_for(url))))
    for proxy in proxies:
        where = "{}:{}".format(*place_of(proxy))
        if is_reachable(proxy):
            yield ok("proxy", f"what is outside goes by {urlsplit(proxy).scheme}://{where}, which takes connections")
        else:
            yield failure(
                "proxy",
                f"{where} takes no connection within {PATIENCE_S:g} s; model endpoints and indexes outside go by it",
                "look at HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the hub, and at what lies between",
            )
