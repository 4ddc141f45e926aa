"""`hub eval fingerprint` and `hub train fingerprint`: the hash of what decides a result."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.ids import id_of
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.errors import EnvhubError
from envhub.protocol.evals.fingerprints import FingerprintView, canonical, fingerprint

Settings = Annotated[
    bool, typer.Option("--settings", help="Print the canonical JSON whose SHA-256 is the fingerprint.")
]


def of_evaluation(
    ctx: typer.Context,
    evaluation_id: Annotated[
        str,
        typer.Argument(
            help="As listed by `hub eval list`.",
            callback=id_of("an evaluation", "hub eval list"),
            autocompletion=completing.evaluations,
        ),
    ],
    settings: Settings = False,
    json: JsonFlag = False,
) -> None:
    """Print an evaluation's fingerprint; evaluations with the same package, model and settings have the same one."""
    session = current(ctx)
    _print(session, session.hub.evaluations.fingerprint(evaluation_id), settings=settings)


def of_training(
    ctx: typer.Context,
    training_id: Annotated[
        str,
        typer.Argument(
            help="As listed by `hub train list`.",
            callback=id_of("a training run", "hub train list"),
            autocompletion=completing.training_runs,
        ),
    ],
    settings: Settings = False,
    json: JsonFlag = False,
) -> None:
    """Print a training run's fingerprint; runs with the same packages, model and configuration have the same one."""
    session = current(ctx)
    _print(session, session.hub.training.fingerprint(training_id), settings=settings)


def _print(session: Session, found: FingerprintView, *, settings: bool) -> None:
    """After making it again from the settings. Raises EnvhubError when the hub says another."""
    if fingerprint(found.settings).sha256 != found.sha256:
        raise EnvhubError(
            "the settings do not match the hub's fingerprint",
            hint="The hub and the command line may have different releases: `hub --version`.",
        )
    if settings and not session.json:
        session.write(canonical(found.settings))
        return
    session.show(found, lambda: session.out.print(found.sha256))
