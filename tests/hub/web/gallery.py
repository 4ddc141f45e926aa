"""Every page of a hub, found by its links: looked at in three widths and both themes, and photographed.

`python -m tests.hub.web.gallery LOGIN_LINK --out DIR [--each 2]` does so with a hub that runs, such as the demo's; the
test test_every_page.py with the showcase.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import django
from django.urls import Resolver404, resolve
from playwright.sync_api import Error

from tests.hub.web.browser import Look, LookAt, browser

Mode = tuple[int, str]  # width in pixels, theme
MODES: tuple[Mode, ...] = tuple((width, scheme) for width in (360, 768, 1440) for scheme in ("light", "dark"))
LINKS = "[...document.querySelectorAll('a[href]:not([download])')].map((link) => link.href)"
NO_PAGES = ("/api/", "/static/", "/index/", "/logout", "/login/link", "/saved/", "/admin/", "/media/")


def route_of(address: str) -> str:
    """The pattern that answers it, '' where none does: pages of one route look alike."""
    path = urlsplit(address).path
    try:
        return "" if path.startswith(NO_PAGES) else str(resolve(path).route)
    except Resolver404:
        return ""


def found_by_links(look: Look, first: list[str], *, each: int) -> list[str]:
    """The addresses `first`, and at most `each` of every route that links lead to from there."""
    found, seen, pages = list(first), Counter(route_of(address) for address in first), []
    for address in found:  # grows
        if not _is_page(look, address):
            continue
        pages.append(address)
        for link in look.page.evaluate(LINKS):
            parts = urlsplit(urljoin(look.base_url, link))
            route = route_of(parts.path)
            there = parts.path + (f"?{parts.query}" if parts.query else "")
            if look.base_url.endswith(f"//{parts.netloc}") and route and there not in found and seen[route] < each:
                seen[route] += 1
                found.append(there)
    look.complaints.clear()
    return pages


def _is_page(look: Look, address: str) -> bool:
    """Open it, and tell a page from a download."""
    try:
        reply = look.page.goto(look.base_url + address, wait_until="domcontentloaded")
    except Error as error:
        if "Download is starting" in error.message:
            return False
        raise
    return reply is not None and "html" in reply.headers.get("content-type", "")


def inspect(look: Look, addresses: list[str], picture: str = "") -> Iterator[tuple[str, str]]:
    """Each address with each fault of its page. `picture` is the folder and the end of the name of each photograph."""
    for number, address in enumerate(addresses):
        status = look.open(address)
        of_page = f"status of {status}" if status >= HTTPStatus.BAD_REQUEST else None
        yield from ((address, fault) for fault in look.faults() if of_page is None or of_page not in fault)
        if picture:
            name = address.strip("/").replace("/", "_").replace("?", "-")[:80] or "home"
            look.page.screenshot(path=picture.format(f"{number:03}-{name}"), full_page=True)


def _inspect_all(look_at: LookAt, hub: str, session: str, addresses: list[str], out: Path, modes: list[Mode]) -> int:
    faults = 0
    for width, scheme in modes:
        folder = out / f"{width}-{scheme}"
        folder.mkdir(parents=True, exist_ok=True)
        with look_at(hub, session=session, width=width, scheme=scheme) as look:
            for address, fault in inspect(look, addresses, str(folder / "{}.png")):
                faults += 1
                sys.stdout.write(f"{width} {scheme} {address}: {fault}\n")
                sys.stdout.flush()
    return faults


def main() -> int:
    """Entry point. The status is 1 if a page has a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("login_link", help="from `manage.py login_link USER`; an address of the hub without one")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the photographs")
    parser.add_argument("--each", type=int, default=2, help="pages of a route")
    parser.add_argument("--modes", default="", help="only these: 360-light,1440-dark")
    parser.add_argument("--page", action="append", default=[], help="only these addresses")
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hub.config.settings")
    django.setup()
    parts = urlsplit(arguments.login_link)
    hub = f"{parts.scheme}://{parts.netloc}"
    with browser() as look_at:
        with look_at(hub) as look:
            look.page.goto(arguments.login_link)
            if look.page.locator("main form button").count() and "login" in parts.path:
                look.page.locator("main form button").first.click()
            session = next((one["value"] for one in look.page.context.cookies() if one.get("name") == "sessionid"), "")
            addresses = arguments.page or found_by_links(look, ["/"], each=arguments.each)
        sys.stdout.write(f"{len(addresses)} pages\n")
        modes = [mode for mode in MODES if not arguments.modes or "{}-{}".format(*mode) in arguments.modes.split(",")]
        return 1 if _inspect_all(look_at, hub, session, addresses, arguments.out, modes) else 0


if __name__ == "__main__":
    sys.exit(main())
