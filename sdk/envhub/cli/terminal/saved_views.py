"""Saved filters of rollouts, of evaluations and of training runs: shown with the command for each, and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envhub.cli.terminal.asking import ask_to_delete
from envhub.cli.terminal.session import Session
from envhub.errors import UsageError
from envhub.protocol.evals.annotations import SavedView


def show_views(session: Session, views: Iterable[SavedView], command: Callable[[SavedView], str]) -> None:
    """As a table."""
    found = list(views)
    rows = [(item.name, command(item), item.created_by, item.created_at) for item in found]
    session.show(found, lambda: session.table(("name", "shows", "by", "saved"), rows, "no saved views"))


def forget_view(
    session: Session, views: Iterable[SavedView], name: str, forget: Callable[[str], None], *, yes: bool, listed: str
) -> None:
    """The one of that name or id, by its id, once that is confirmed. `listed` is the command that shows all. Raises
    UsageError."""
    found = next((one for one in views if name in {one.name, one.id}), None)
    if found is None:
        raise UsageError(f"there is no saved view {name}", hint=f"`{listed}` shows them.")
    ask_to_delete(session, f"the view {found.name}", yes=yes)
    forget(found.id)
    session.show({"deleted": found.name}, lambda: session.out.print("deleted"))
