"""Write the pages that are made from the code."""

from __future__ import annotations

from infra.reference.pages import PAGES

for path, made in PAGES.items():
    path.write_text(made(), encoding="utf-8")
