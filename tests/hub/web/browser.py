"""Debian's chromium, driven by Playwright, with everything written down that a page complains about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, sync_playwright

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = Axe()
PATIENCE_MS = 90_000  # with a page, where other tests keep the machine busy
MOST_TOLD = 3  # elements of a broken rule
MOST_SHIFT = 0.05  # of layout, after the first paint
SHIFT = """new Promise((done) => {
  const shifts = [];
  const note = (list) => list.getEntries().forEach((shift) => shift.hadRecentInput || shifts.push(
    {by: shift.value, of: shift.sources.map(({node}) => node?.outerHTML?.slice(0, 80) ?? "text").join(" ")}));
  new PerformanceObserver(note).observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(shifts), 150);
})"""
LEFT = ("htmx:afterRequest", "htmx:sendAbort")  # what fails otherwise is said besides, as htmx:sendError
SIZES = ((360, "dark"), (1280, "light"))
# Of two neighbours in a list of pages each is looked at in one size; `make test-matrix` looks at both in the other.
by_turns = pytest.mark.parametrize(
    ("width", "scheme", "first"),
    [
        *((*size, first) for first, size in enumerate(SIZES)),
        *(pytest.param(*size, 1 - first, marks=pytest.mark.matrix) for first, size in enumerate(SIZES)),
    ],
)


def chromium() -> str:
    """Its path. Skips the test without one, except in CI, where it fails."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    return found


@dataclass
class Look:
    """An open page and its complaints: console errors, violations of the CSP, exceptions, dialogs, whatever it asks of
    another host than the hub."""

    page: Page
    base_url: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> int:
        """Go there, wait until htmx has read the page, and return the status of the answer."""
        reply = self.page.goto(self.base_url + path, wait_until="load")
        return reply.status if reply else 0

    def hear(self, said: ConsoleMessage) -> None:
        """Errors and warnings are complaints, but for those of a live page that is left while it asks for news."""
        if said.type in {"error", "warning"} and not said.text.startswith(LEFT):
            self.complaints.append(said.text)

    def refuse(self, dialog: Dialog) -> None:
        """No page of the hub opens a dialog: one that does has run somebody's script."""
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        element = "document.documentElement"
        width: int = self.page.evaluate(f"Math.max(0, {element}.scrollWidth - window.innerWidth)")
        return width

    def shifts(self) -> list[str]:
        """What has moved since the first paint, when that is too much of the window."""
        seen = self.page.evaluate(SHIFT)
        moved = sum(shift["by"] for shift in seen)
        return [f"layout shift of {moved:.3f}: {seen[0]['of']}"] if moved >= MOST_SHIFT else []

    def faults(self) -> list[str]:
        """Everything that is wrong with the open page, and what it has complained of since the last time."""
        wide, said = self.overflow(), list(self.complaints)
        self.complaints.clear()
        return [*([f"{wide} px too wide"] if wide else []), *self.shifts(), *self.barriers(), *said]

    def barriers(self) -> list[str]:
        """What axe finds: contrast, names, roles, headings, the keyboard's reach. Each rule with what breaks it."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        broken = AXE.run(self.page, options={"resultTypes": ["violations"]}).response["violations"]
        return [
            f"{rule['id']}: {' '.join(node['html'][:160] for node in rule['nodes'][:MOST_TOLD])}" for rule in broken
        ]


class LookAt(Protocol):
    """A fresh page at `base_url`, which shares nothing with others; `session` signs it in."""

    def __call__(
        self, base_url: str, *, session: str = "", width: int = 1280, scheme: str = "light"
    ) -> AbstractContextManager[Look]: ...


@contextmanager
def browser() -> Iterator[LookAt]:
    """One process, whose start costs more CPU than most pages do."""
    path = chromium()
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS)) as started,
    ):

        @contextmanager
        def look_at(base_url: str, *, session: str = "", width: int = 1280, scheme: str = "light") -> Iterator[Look]:
            colors: Any = "dark" if scheme == "dark" else "light"
            with started.new_context(viewport={"width": width, "height": 900}, color_scheme=colors) as context:
                if session:
                    context.add_cookies([{"name": "sessionid", "value": session, "url": base_url}])
                yield _listen(context, base_url)

        yield look_at


def _listen(context: BrowserContext, base_url: str) -> Look:
    look = Look(context.new_page(), base_url)
    look.page.set_default_navigation_timeout(PATIENCE_MS)
    look.page.on("console", look.hear)
    look.page.on("request", lambda asked: look.complaints.append(asked.url) if not _own(asked.url, base_url) else None)
    look.page.on("dialog", look.refuse)
    look.page.on("pageerror", lambda error: look.complaints.append(str(error)))
    return look


def _own(url: str, base_url: str) -> bool:
    return url.startswith((f"{base_url}/", "data:", "blob:", "about:"))
