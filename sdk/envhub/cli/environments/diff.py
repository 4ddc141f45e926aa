"""`hub env diff`: what changed from one version of an environment to another."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.references import parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.protocol.evals.version_diffs import VersionDiff


def diff(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(help="owner/name@A: the older version.", autocompletion=completing.environments)
    ],
    version: Annotated[str, typer.Argument(help="B: the newer version.")] = "latest",
    json: JsonFlag = False,
) -> None:
    """Compare two versions: files, locked dependencies, checks, examples that flipped."""
    session = current(ctx)
    reference = parse(session, name, need_version=True)
    found = session.hub.environments.diff(reference.environment, reference.version_or_latest, version)
    session.show(found, lambda: _print(session, found))
    session.note(f"{session.hub.url}/environments/{found.environment}/diff?a={found.a}&b={found.b}")


def _print(session: Session, found: VersionDiff) -> None:
    if found.flipped:
        rows = [(row.model, f"{row.mean_a:.3f}", f"{row.mean_b:.3f}", row.better, row.worse) for row in found.flipped]
        session.table(("model", found.a, found.b, "better", "worse"), rows)
    if found.packages:
        session.table(("package", found.a, found.b), [(one.name, one.old, one.new) for one in found.packages])
    if found.checks:
        session.table(("check", found.a, found.b), [(one.name, one.old, one.new) for one in found.checks])
    for one in found.files:
        session.write(f"{one.change} {one.path}{f' ({one.note})' if one.note else ''}\n")
        if one.diff:
            session.write(f"{one.diff}\n")
    if found.more_files:
        session.write(f"and {found.more_files} more files\n")
    if not (found.flipped or found.packages or found.checks or found.files):
        session.write(f"{found.a} and {found.b} are the same\n")
