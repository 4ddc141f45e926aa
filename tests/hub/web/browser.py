"""Debian's chromium, driven by Playwright, with everything written down that a page complains about."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, sync_playwright

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
UNLABELLED = (Path(__file__).parent / "unlabelled.js").read_text()


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
    """An open page and its complaints: console errors, violations of the CSP, exceptions, dialogs."""

    page: Page
    base_url: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Go there and wait until htmx has read the page."""
        self.page.goto(self.base_url + path, wait_until="load")

    def refuse(self, dialog: Dialog) -> None:
        """No page of the hub opens a dialog: one that does has run somebody's script."""
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        element = "document.documentElement"
        width: int = self.page.evaluate(f"Math.max(0, {element}.scrollWidth - window.innerWidth)")
        return width

    def low_contrast(self) -> list[str]:
        """Texts whose contrast with what lies behind them is below 4.5 (WCAG AA; 3 for large text)."""
        found: list[str] = self.page.evaluate(CONTRAST)
        return found

    def unlabelled(self) -> list[str]:
        """Controls without a name for those who cannot see them, and headings of the first level beyond one."""
        found: list[str] = self.page.evaluate(UNLABELLED)
        return found


@contextmanager
def look_at(base_url: str, *, session: str = "", width: int = 1280, scheme: str = "light") -> Iterator[Look]:
    """A fresh browser at `base_url`; `session` signs it in."""
    path = chromium()
    with tempfile.TemporaryDirectory(prefix="hub-chromium-") as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=path,
            args=list(ARGUMENTS),
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        if session:
            context.add_cookies([{"name": "sessionid", "value": session, "url": base_url}])
        try:
            yield _listen(context, base_url)
        finally:
            context.close()


def _listen(context: BrowserContext, base_url: str) -> Look:
    look = Look(context.new_page(), base_url)
    look.page.on(
        "console", lambda said: look.complaints.append(said.text) if said.type in {"error", "warning"} else None
    )
    look.page.on("dialog", look.refuse)
    look.page.on("pageerror", lambda error: look.complaints.append(str(error)))
    return look
