"""`hub env check`: give the checks of a version what they need, and run them again."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.environments.version_card import is_fine, print_card
from envhub.cli.terminal import completing
from envhub.cli.terminal.option_values import json_object, judge_pairs
from envhub.cli.terminal.progress import goes_on, run_progress
from envhub.cli.terminal.references import model_reference, parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.errors import EnvhubError
from envhub.protocol.registry.needs import CheckSettings
from envhub.protocol.registry.packages import VersionState, VersionView
from envhub.protocol.runs import RunState

Repeated = list[str] | None


def check(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(help="owner/name[@version], or name for your own.", autocompletion=completing.environments)
    ],
    env_args: Annotated[str | None, typer.Option("--env-args", "-a", help="JSON object for load_environment.")] = None,
    taskset: Annotated[str | None, typer.Option(help="JSON object: the taskset's configuration.")] = None,
    harness: Annotated[str | None, typer.Option(help="JSON object: the harness's configuration.")] = None,
    secret: Annotated[Repeated, typer.Option(metavar="<str>", help="Grant this stored secret (repeat).")] = None,
    judge: Annotated[
        Repeated, typer.Option(metavar="<str>", help="NAME=owner/model for the environment's judge (repeat).")
    ] = None,
    allow_host: Annotated[Repeated, typer.Option(metavar="<str>", help="host:port to reach (repeat).")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Discard what earlier checks were given.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result.")] = True,
    json: JsonFlag = False,
) -> None:
    """Check a version again with additional arguments, secrets, judges or hosts, which are kept with the version.

    The version stays usable meanwhile. Exits with 1 if a need is unmet or a check failed.
    """
    session = current(ctx)
    reference = parse(session, name)
    judges = {asked: model_reference(session, given) for asked, given in (judge_pairs(judge) or {}).items()}
    given = {
        "env_args": json_object("--env-args", env_args), "taskset": json_object("--taskset", taskset),
        "harness": json_object("--harness", harness), "secrets": secret, "judges": judges, "allow_hosts": allow_host,
    }  # fmt: skip
    settings = CheckSettings.model_validate({key: value for key, value in given.items() if value is not None})
    hub = session.hub.environments
    view = hub.check(reference.environment, reference.version_or_latest, settings, reset=reset)
    if wait:
        view = _follow(session, view)
    session.show(view, lambda: _print(session, view))
    if wait and not is_fine(view):
        raise typer.Exit(1)


def _follow(session: Session, view: VersionView) -> VersionView:
    """To the end of its run, and of another if something came while it ran. Raises EnvhubError when one fails."""
    followed: set[str] = set()
    while (run_id := view.build_run_id if view.state is VersionState.BUILDING else view.check_run_id) not in followed:
        assert run_id is not None
        followed.add(run_id)
        with goes_on(session, f"`hub run show {run_id}` looks at it"), run_progress(session, "checks") as show:
            for run in session.hub.runs.watch(run_id):
                show(run)
        if run.failure is not None and run.state is not RunState.SUCCEEDED:
            failure = run.failure
            hint = failure.hint or f"`hub run logs {run_id}` has its log"
            raise EnvhubError(f"the checks were not run: {failure.message}", code=failure.code, hint=hint)
        view = session.hub.environments.version(f"{view.owner}/{view.name}", view.version)
    return view


def _print(session: Session, view: VersionView) -> None:
    mark = "[green]ready[/green]" if is_fine(view) else f"[yellow]{view.state}[/yellow]"
    session.out.print(f"{mark} {view.owner}/{view.name}@{view.version}")
    print_card(session, view)
