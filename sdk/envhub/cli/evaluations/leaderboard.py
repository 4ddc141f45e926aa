"""`hub eval leaderboard`: the models that were measured on an environment in the same way."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.evaluations.summary import coverage, origin, score
from envhub.cli.terminal import completing
from envhub.cli.terminal.references import parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.errors import UsageError
from envhub.protocol.evals.leaderboards import LeaderboardView

RANKED = Fit(drop=("source", "coverage"))


def leaderboard(
    ctx: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="owner/name, or name for your own.", autocompletion=completing.environments)
    ],
    settings: Annotated[
        str | None, typer.Option(help="The key of other settings (default: those of the newest version).")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Rank models measured with the same version, split, examples, arguments and sampling."""
    session = current(ctx)
    wanted = parse(session, environment)
    if wanted.version:
        raise UsageError(
            "a leaderboard covers all versions", hint="Omit it; --settings KEY chooses another leaderboard."
        )
    found = session.hub.evaluations.leaderboard(wanted.environment, settings=settings)
    session.show(found, lambda: _print(session, found))


def _print(session: Session, found: LeaderboardView) -> None:
    if found.shown is None:
        session.out.print(f"no evaluation of {found.environment} has succeeded yet")
        return
    session.fields({"environment": found.environment, "settings": found.shown.title})
    rows = [(place.rank or "-", place.evaluation.model, score(place.evaluation.summary),
             coverage(place.evaluation.summary), origin(place.evaluation), place.evaluation.id)
            for place in found.standings]  # fmt: skip
    session.table(("rank", "model", "reward", "coverage", "source", "evaluation"), rows, fit=RANKED)
    if found.newest_only:
        session.note(f"only the {found.newest_only} models that were evaluated last; there are more")
    others = [item for item in found.settings if item.key != found.shown.key]
    if others:
        session.note("others cannot be compared with these; --settings KEY shows them:")
        settings = [(item.key, item.models, item.title) for item in others]
        session.table(("key", "models", "settings"), settings, fit=Fit(wrap=("settings",)))
    if found.more_settings:
        session.note("there are more settings: those of the newest versions are listed")
