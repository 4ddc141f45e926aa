"""Which page is made by what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from infra.reference.commands import commands_page
from infra.reference.errors import errors_page
from infra.reference.rest import rest_page

DOCUMENTS = Path(__file__).parents[2] / "frontend/docs"
PAGES: Mapping[Path, Callable[[], str]] = {
    DOCUMENTS / "commands.md": commands_page,
    DOCUMENTS / "errors.md": errors_page,
    DOCUMENTS / "rest.md": rest_page,
}
