"""`hub sandbox upload|download`."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from envhub.cli.sandboxes.commands import SandboxId
from envhub.cli.terminal.progress import transfer
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.client.directories import files_below
from envhub.errors import UsageError

Inside = Annotated[str, typer.Argument(help="An absolute path in the sandbox.", metavar="PATH")]


def upload(
    ctx: typer.Context,
    sandbox_id: SandboxId,
    source: Annotated[Path, typer.Argument(help="A file, or a directory with all its files.", exists=True)],
    path: Inside,
    json: JsonFlag = False,
) -> None:
    """Copy a file or a directory into a sandbox, as PATH. If that ends with a slash, SOURCE is put into it."""
    session = current(ctx)
    files = _files(session, source, path)
    total = sum(file.stat().st_size for file, _ in files)
    with transfer(session, "uploading", total) as moved:
        for file, target in files:
            session.hub.sandboxes.upload(sandbox_id, target, file)
            moved(file.stat().st_size)
    value = {"uploaded": [target for _, target in files], "bytes": total}
    session.show(value, lambda: session.note(f"uploaded {len(files)} {'file' if len(files) == 1 else 'files'}"))


def _files(session: Session, source: Path, path: str) -> list[tuple[Path, str]]:
    """Each file with its place. Raises UsageError."""
    target = PurePosixPath(path)
    if not target.is_absolute():
        raise UsageError(f"{path!r} is not an absolute path", hint="Write /app/FILE.")
    if path.endswith("/"):
        target /= source.resolve().name
    if source.is_file():
        return [(source, str(target))]
    skipped: list[Path] = []
    found = files_below(source, hidden=True, skipped=skipped)
    if skipped:
        more = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
        session.note(f"left out, as they are links to folders or no files: {skipped[0]}{more}")
    if not found:
        raise UsageError(f"{source} has no files")
    return [(file, str(target / name)) for name, file in found.items()]


def download(
    ctx: typer.Context,
    sandbox_id: SandboxId,
    path: Inside,
    target: Annotated[Path, typer.Argument(help="A file, or a directory to put it in.")] = Path("."),
    json: JsonFlag = False,
) -> None:
    """Copy a file out of a sandbox."""
    session = current(ctx)
    place = target / PurePosixPath(path).name if target.is_dir() else target
    saved = session.hub.sandboxes.download(sandbox_id, path, place)
    session.show({"saved": saved, "bytes": saved.stat().st_size}, lambda: session.out.print(saved))
